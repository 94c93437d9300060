"""Record workloads for simulated searches.

    python -m benchmarks.tuner.record build [NAME ...] [--count N] [--seconds S]
    python -m benchmarks.tuner.record time [NAME ...] [--visits N]
    python -m benchmarks.tuner.record export [NAME ...]

`build` compiles the candidates and may run beside other work; it ends after --seconds, with exit
status 3 while something is missing. `time` wants a quiet machine: all workloads take turns, so that
the visits of one lie minutes apart; then it writes the recordings, as `export` does. Each goes on
where it was ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from autotune.choices import freeze
from autotune.rules import make_space
from autotune.simulate import Recording
from autotune.simulate.recorder import Recorder
from autotune.space import Candidate
from backends import resolve
from benchmarks.tuner.workloads import WORKLOADS
from tensorir import DEFAULT_NUMERICS, device_of

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
WORK = HERE.parent / "results" / "tuner"
FILE = "neighbours.json"
UNFINISHED = 3


class Made(NamedTuple):
    """What was good for another size.

    sketch  and `values` of its choices by their names: those of today may be more than recorded
    ratio   the time that it took there over that of the default of the sketch `usual`, or of all
    """

    sketch: str
    values: dict[str, Any]
    ratio: float = 1.0
    usual: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    names = options.names or list(WORKLOADS)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        print(f"unknown workloads {unknown}; there are {', '.join(WORKLOADS)}", file=sys.stderr)
        return 2
    if options.phase == "build":
        return _build(names, options)
    recorders = [_recorder(options, name) for name in names]
    if options.phase == "time":
        for visit in range(options.visits):
            for recorder in recorders:
                begun = time.monotonic()
                recorder.time(visit)
                taken = time.monotonic() - begun
                print(f"visit {visit} of {recorder.name}: {taken:.0f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for recorder in recorders:
        recording, path = recorder.recording(), options.out / f"{recorder.name}.jsonl.gz"
        recording.write(path)
        timed = sum(entry.status == "ok" for entry in recording.entries)
        print(f"{path}: {timed} timed of {len(recording.entries)}, {path.stat().st_size} bytes")
    return 0


def _build(names: Sequence[str], options: argparse.Namespace) -> int:
    """All workloads grow alike, so that what there is after a while is some of each."""
    deadline = time.monotonic() + options.seconds
    missing = False
    for at, name in enumerate(names):
        recorder = _recorder(options, name)
        done = recorder.build((deadline - time.monotonic()) / (len(names) - at))
        print(f"{name}: {recorder.built} of {options.count}{' done' * done}", flush=True)
        _rename(options.out / FILE, name, recorder)
        missing |= not done
    return UNFINISHED if missing else 0


def _recorder(options: argparse.Namespace, name: str) -> Recorder:
    known = neighbours(options.out / FILE).get(name, ())
    also = [Candidate(made.sketch, tuple(made.values.values())) for made in known]
    recorder = Recorder(options.work / name, name, WORKLOADS[name](), options.count, also=also)
    lost = len(also) - len(recorder.also)
    if lost:
        print(
            f"{name}: {lost} of {len(also)} candidates in {options.out / FILE} are none of today's"
            " rules and are left out: python -m benchmarks.tuner.transfer --record finds others",
            file=sys.stderr,
        )
    return recorder


def _rename(path: Path, name: str, recorder: Recorder) -> None:
    """Call what is best for another size as the recording calls the same program, each once."""
    found: dict[Candidate, list[Any]] = {}
    known = neighbours(path).get(name, [])
    for made in known:
        candidate = Candidate(made.sketch, tuple(made.values.values()))
        same = recorder.recorded_as(candidate)
        values = made.values if same == candidate else recorder.space.decisions(same)
        found.setdefault(same, [same.sketch, values, made.ratio, made.usual])
    if known:
        stored = json.loads(path.read_text(encoding="utf-8"))
        stored["workloads"][name]["best"] = list(found.values())
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


@lru_cache(maxsize=16)
def recorded(path: Path) -> Recording:
    """A recording, of a workload with what the formulas of today's plans tell of its candidates."""
    found = Recording.read(path)
    if found.name not in WORKLOADS or "target" not in found.about:
        return found
    machine = found.about["machine"]
    caches = " ".join(f"-{level.lower()}={size}" for level, size in machine["caches"].items())
    target = f"{found.about['target']} -threads={machine['cores']} {caches}"
    space = make_space(WORKLOADS[found.name](), device_of(resolve(target)), DEFAULT_NUMERICS)
    return found.with_formulas(space)


def neighbours(path: Path) -> dict[str, list[Made]]:
    """What is best for another size of each workload, best first; none without the file."""
    if not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))["workloads"]
    return {
        name: [
            Made(sketch, {k: freeze(v) for k, v in values.items()}, *told)
            for sketch, values, *told in each["best"]
        ]
        for name, each in stored.items()
    }


def candidate_of(known: Made, choices: Mapping[str, Sequence[str]]) -> Candidate | None:
    """The candidate of a space whose sketches have these choices; None where one was not made."""
    names = choices.get(known.sketch)
    if names is None or not known.values.keys() >= set(names):
        return None
    return Candidate(known.sketch, tuple(known.values[name] for name in names))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("phase", choices=("build", "time", "export"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--count", type=int, default=1000, help="candidates of each (1000)")
    parser.add_argument("--visits", type=int, default=4, help="of each candidate (4)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of `build`")
    parser.add_argument("--work", type=Path, default=WORK, help=f"({WORK})")
    parser.add_argument("--out", type=Path, default=RECORDED, help=f"({RECORDED})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
