"""Beside MetaSchedule of TVM: what both tuners find in as many trials, and their seconds.

    python -m benchmarks.tuner.metaschedule [--trials N] [--theirs N] [--only NAME ...] [--anew]

TVM is installed into .venv-tvm, an environment of its own. Six operators of the suite and six that
nobody has a library for; each tuner is a process and begins with an empty database. All kernels
are compared with NumPy's float64 and timed in turns in one run, as in `benchmarks.peers`.
A row is stored when it is finished, and the same command goes on with the next; leave the machine
alone: one to two minutes a row with 64 trials, up to 26 with `--theirs 256`, which has a table and
a file of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.machine.machine import this_machine
from backends import Comparison, Timing, compare, host_threads
from benchmarks.limits import measure_limits
from benchmarks.peers.catalog import OURS
from benchmarks.peers.figures import Figures
from benchmarks.peers.install import pythons
from benchmarks.peers.invented import INVENTED_QUICK, INVENTED_ROWS
from benchmarks.peers.libraries.ours import DEFAULT, TUNED
from benchmarks.peers.rows import Row, conv, elementwise, linear, matmul, rows_of
from benchmarks.peers.run import Field, Settings, run_row
from benchmarks.peers.turns import PAUSE_S
from benchmarks.tuner.section import RESULTS, ROOT, Section, chosen, parser_of, positive, publish

TVM = "tvm"
ENVIRONMENT = ROOT / ".venv-tvm"
NAME = "metaschedule"

SUITE = (
    matmul(512), linear(128, 3072, 768, "relu"), conv(64, 64, 3, 56), elementwise(1 << 22),
    rows_of("row_sum", 4096, 4096), rows_of("softmax", 1024, 1024),
)  # fmt: skip
INVENTED = ("min_plus", "distances", "mttkrp", "chwn", "blur", "cosine")
ROWS = (*SUITE, *(row for row in INVENTED_ROWS if row.sizes["op"] in INVENTED))
QUICK = (matmul(24), *(row for row in INVENTED_QUICK if row.sizes["op"] == "distances"))
HEADER = ("operator", "default ms", "tuned ms", "MetaSchedule ms", "ratio", "s", "s of TVM")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where a kernel failed or is wrong, 2 where TVM cannot be had."""
    options = _parser().parse_args(argv)
    rows = {row.name: row for row in (QUICK if options.quick else ROWS)}
    names = chosen(list(rows), options.only)
    if options.quick:
        options.trials = options.theirs = min(options.trials, 4)
    path = options.json or RESULTS / _file(options)
    options.json = path
    known = {} if options.anew or options.quick else _stored(path, options)
    missing = [name for name in names if name not in known]
    if missing:
        found, reasons = pythons([OURS, TVM], ENVIRONMENT)
        if TVM not in found:
            print(f"no TVM: {reasons[TVM]}", file=sys.stderr)
            return 2
        _run([rows[name] for name in missing], found, options, known, path)
    return publish(_section([name for name in names if name in known], known, options), options)


def _run(
    rows: Sequence[Row],
    found: Mapping[str, Path],
    options: argparse.Namespace,
    known: dict[str, Any],
    path: Path,
) -> None:
    """Tune and time these rows, each stored in `known` and in the file when it is finished."""
    limits = measure_limits(options.threads, 0.02)
    everyone = Field(found, options.threads)
    rounds, min_ms, pause = (3, 0.2, 0.0) if options.quick else (20, 10.0, PAUSE_S)
    try:
        for number, row in enumerate(rows, 1):
            begun = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="metaschedule-") as folder:
                settings = Settings(rounds, min_ms, pause, False, {
                    "trials": options.trials, "their_trials": options.theirs or options.trials,
                    "seed": 0, "database": str(Path(folder, "tuning.db")),
                })  # fmt: skip
                known[row.name] = _kept(run_row(row, everyone, settings, limits))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_data(known, options)) + "\n", encoding="utf-8")
            taken = time.perf_counter() - begun
            said = " | ".join(_cells(known[row.name])[1:])
            print(f"[{number}/{len(rows)}] {said} ({taken:.0f} s)", flush=True)
    finally:
        everyone.close()


def _kept(figures: Figures) -> dict[str, Any]:
    """The figures of a row that are stored; times in seconds per call."""
    times = {
        TVM if subject.library != OURS else subject.form: [list(t.times), t.calls]
        for subject, t in figures.times.items()
    }
    return {
        "name": figures.row.name, "times": times, "seconds": dict(figures.seconds),
        "missing": dict(figures.missing), "others": figures.others,
    }  # fmt: skip


def _stored(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The rows of an earlier call with as many trials that have all their times, by name."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    wanted = _data({}, options)
    if any(stored.get(key) != value for key, value in wanted.items() if key != "rows"):
        return {}
    return {row["name"]: row for row in stored["rows"] if _ratio(row) is not None}


def _data(known: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "trials": options.trials, "theirs": options.theirs or options.trials,
        "threads": options.threads, "machine": this_machine().key, "rows": list(known.values()),
    }  # fmt: skip


def _more(options: argparse.Namespace) -> str:
    """What tells a table where TVM has more trials than ours from that with as many: "-256"."""
    theirs = options.theirs or options.trials
    return "" if theirs == options.trials else f"-{theirs}"


def _file(options: argparse.Namespace) -> str:
    return f"{NAME}-quick.json" if options.quick else f"{NAME}{_more(options)}.json"


def _timing(row: Mapping[str, Any], name: str) -> Timing | None:
    blocks = row["times"].get(name)
    return None if blocks is None else Timing(tuple(blocks[0]), blocks[1])


def _ratio(row: Mapping[str, Any]) -> Comparison | None:
    """The time of TVM's kernel over that of ours: above 1 ours is faster."""
    theirs, ours = _timing(row, TVM), _timing(row, TUNED)
    return None if theirs is None or ours is None else compare(theirs, ours)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    timings = [_timing(row, name) for name in (DEFAULT, TUNED, TVM)]
    ms = ["" if t is None else f"{t.median * 1e3:.3g}" for t in timings]
    found = _ratio(row)
    ratio = "" if found is None else f"{found.ratio:.2f} [{found.low:.2f}, {found.high:.2f}]"
    seconds = [row["seconds"].get(name) for name in (OURS, TVM)]
    return row["name"], *ms, ratio, *["" if s is None else f"{s:.0f}" for s in seconds]


def _section(
    names: Sequence[str], known: Mapping[str, Any], options: argparse.Namespace
) -> Section:
    """The table of these rows, which says what it lacks; what is stored of others stays."""
    rows = [known[name] for name in names]
    whole = [(row, found.ratio) for row in rows if (found := _ratio(row)) is not None]
    notes = []
    if whole:
        mean = float(np.exp(np.mean(np.log([ratio for _, ratio in whole]))))
        ours, theirs = (sum(row["seconds"][name] for row, _ in whole) for name in (OURS, TVM))
        count = options.theirs or options.trials
        notes = [
            f"Geometric mean of the ratios (TVM's time over ours): {mean:.2f}, in"
            f" {ours / theirs:.2f} of its seconds; {options.trials} trials each"
            + (f", {count} for TVM" if count != options.trials else "")
            + f"; {this_machine().cpu}, {options.threads} threads."
        ]
        lacks = [] if options.quick else [row.name for row in ROWS if row.name not in names]
        notes += [f"Not run: {', '.join(lacks)}."] if lacks else []
    failed = [f"{r['name']}: {n}: {why}" for r in rows for n, why in r["missing"].items()]
    data = _data(known, options)
    title = "beside MetaSchedule: tuned kernels, interleaved, and seconds of both tuners"
    cells = [_cells(row) for row in rows]
    mark = f"tuner-tvm{_more(options)}"
    return Section(mark, _file(options), title, HEADER, cells, data, notes, failed)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "benchmarks.tuner.metaschedule", __doc__, seeds=1, trials=64, trials_of="of each tuner"
    )
    parser.add_argument("--theirs", type=positive, help="trials of TVM's (as many as ours)")
    parser.add_argument("--threads", type=positive, default=host_threads(), help="(all)")
    parser.add_argument("--anew", action="store_true", help="forget what is stored")
    return parser


if __name__ == "__main__":
    sys.exit(main())
