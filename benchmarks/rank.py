"""How well an estimate orders the plans of a space: rank correlation with measured times.

python -m benchmarks.rank [--rows TEXT] [--count N] [--estimate NAME] [--json FILE] [--quick]

Plans are drawn from each space; kernels are compared with the reference once and timed in turns.
Ten rows of 60 plans take less than six minutes on two processors; 200 plans halve the error of a
correlation, 0.13 at 60, and take fifteen.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune.cost_model.make import draft_of
from autotune.cost_model.quality import Quality, quality
from autotune.cost_model.roofline import CLOCK
from autotune.features.features import extractor
from autotune.machine.machine import this_machine
from autotune.measure import machine_lock
from autotune.measure.busy import Neighbours, disturbance
from autotune.rules import make_space
from autotune.space import Candidate, Infeasible, Space
from backends import CompiledKernel, build, interleave, resolve
from benchmarks.general.form import Arrays, numbers, require_close
from benchmarks.general.workloads import Workload, rows, workload
from benchmarks.table import show_table
from schedule import Schedule
from tensorir import Buffer, Target, TensorIRError, device_of, reference
from tensorir.arrays import decode

TEN = (
    "matmul 512", "linear+gelu 128x3072x768", "batch matmul 12x384x384x64", "conv 64->64 3x3 56",
    "conv 256->64 1x1 56", "depthwise 96 3x3 s2 112", "row sum 4096x4096",
    "distances 1024x1024x64", "mttkrp 256x64x64x64", "conv CHWN 32->32 3x3 28 n16",
)  # fmt: skip
"""The rows that are ranked if none are named: those whose spaces are large."""


@dataclass(frozen=True, eq=False)
class Point:
    """A plan of a space with its schedule: an estimate may ask either."""

    space: Space
    candidate: Candidate
    schedule: Schedule
    target: Target
    constants: tuple[str, ...]


Estimate = Callable[[Point], float]
"""Cycles that one call takes, about: positive, and less for what is faster."""


def draft_cycles(point: Point) -> float:
    """The search's analytic draft, made of the features of a schedule."""
    features = extractor(point.target, point.constants)(point.schedule)
    return float(draft_of(point.target)(features)[0]) * CLOCK


def formula_cycles(point: Point) -> float:
    """That of the plans' formulas, which needs no schedule: what chooses defaults, and what
    searches build."""
    cycles = point.space.sketches[point.candidate.sketch].cycles([point.candidate.values])
    if cycles is None:
        raise TensorIRError(f"sketch {point.candidate.sketch!r} has no formula")
    return float(cycles[0])


ESTIMATES: dict[str, Estimate] = {"draft": draft_cycles, "formula": formula_cycles}
"""Estimates by name; another one is a line here."""


@dataclass(frozen=True)
class Ranked:
    """Plans of one workload with what was estimated and what was measured.

    plans      names and values
    cycles     estimated
    seconds    measured
    refused    why plans that were drawn have no time, by how many; `wrong` gave other results
    """

    name: str
    plans: Sequence[Any]
    cycles: Sequence[float]
    seconds: Sequence[float]
    refused: Mapping[str, int]
    others: float | None
    wrong: Sequence[Any] = ()

    @property
    def quality(self) -> Quality:
        """How well the estimates order the times."""
        return quality(np.asarray(self.cycles), np.asarray(self.seconds))

    @property
    def correlation(self) -> float:
        """Of the ranks, -1 to 1; NaN with fewer than two plans, or where all are alike."""
        return self.quality.spearman

    @property
    def pairs(self) -> float:
        """The share of pairs that are ordered as they were measured, equal times left out."""
        return self.quality.pairwise

    @property
    def regret(self) -> float:
        """The time of the plan that the estimate puts first over that of the fastest one."""
        if not self.cycles:
            return math.nan
        return self.seconds[int(np.argmin(self.cycles))] / min(self.seconds)

    def cells(self) -> list[str]:
        best = f"{min(self.seconds) * 1e3:.3g}" if self.seconds else ""
        return [self.name, str(len(self.plans)), str(sum(self.refused.values())),
                f"{self.correlation:.2f}", f"{self.pairs:.0%}", f"{self.regret:.2f}",
                best]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "correlation": _known(self.correlation),
            "pairs": _known(self.pairs), "regret": _known(self.regret),
            "plans": list(self.plans), "cycles": list(self.cycles), "seconds": list(self.seconds),
            "refused": dict(self.refused), "others": self.others, "wrong": list(self.wrong),
        }  # fmt: skip


def _known(value: float) -> float | None:
    """A number that JSON can hold."""
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Settings:
    """How many plans are drawn, and how each is measured, as for forms."""

    count: int
    rounds: int
    min_ms: float
    seconds: float
    seed: int
    threads: int


def rank(plain: Workload, estimate: Estimate, settings: Settings) -> Ranked:
    """Draw plans of a workload's space, estimate each and measure each, in turns."""
    target = resolve(f"c -threads={settings.threads}")
    space = make_space(plain.func, device_of(target))
    names = tuple(plain.func.inputs[n].name for n in plain.constants)
    arrays = dict(zip((b.name for b in plain.func.inputs), numbers(plain.func)))
    held = {name: arrays[name] for name in names}
    points, cycles, refused = list[Point](), list[float](), Counter[str]()
    for candidate in _drawn(space, settings):
        try:
            point = Point(space, candidate, space.build(candidate), target, names)
            cycles.append(estimate(point))
            points.append(point)
        except TensorIRError as error:
            refused[_reason(error)] += 1
    with ThreadPoolExecutor(settings.threads) as pool:  # compilers are processes
        made = list(pool.map(partial(_built, held=held), points))
    refused.update(_reason(kernel) for kernel in made if isinstance(kernel, TensorIRError))
    given = [array for name, array in arrays.items() if name not in held]
    wanted = list(reference(plain.func, *arrays.values()))
    good: list[tuple[int, CompiledKernel]] = []
    wrong, outputs = [], ()
    for n, kernel in enumerate(made):
        if isinstance(kernel, TensorIRError):
            continue
        outputs = outputs or _outputs(kernel, given)
        if _is_right(kernel, given, outputs, plain.func.outputs, wanted):
            good.append((n, kernel))
        else:
            wrong.append(points[n].candidate.as_json())
    neighbours = Neighbours()
    with machine_lock(), neighbours.watching():
        subjects = [(kernel, *given, *outputs) for _, kernel in good]
        times = interleave(subjects, settings.rounds, settings.min_ms, settings.seconds)
    plans = [points[n].candidate.as_json() for n, _ in good]
    measured = [t.median for t in times]
    known, others = [cycles[n] for n, _ in good], neighbours.share()
    return Ranked(plain.name, plans, known, measured, refused, others, wrong)


def _reason(error: TensorIRError) -> str:
    return f"{type(error).__name__}: {str(error).partition(':')[0]}"


def _built(point: Point, held: Mapping[str, Any]) -> CompiledKernel | TensorIRError:
    try:
        return build(point.schedule, point.target, constants=held)
    except TensorIRError as error:
        return error


def _is_right(
    kernel: CompiledKernel,
    given: Sequence[Any],
    outputs: Sequence[Any],
    buffers: Sequence[Buffer],
    wanted: Arrays,
) -> bool:
    """Whether a kernel computes what the reference does, into `outputs`."""
    for out in outputs:
        out.fill(np.nan if out.dtype.kind == "f" else np.iinfo(out.dtype).max)
    kernel(*given, *outputs)
    try:
        require_close(buffers, [decode(o, b.dtype) for o, b in zip(outputs, buffers)], wanted)
    except TensorIRError:
        return False
    return True


def _drawn(space: Space, settings: Settings) -> list[Candidate]:
    """Different feasible plans, each sketch with equal chances; fewer where there are no more."""
    rng, found = random.Random(settings.seed), dict[Candidate, None]()
    for _ in range(20 * settings.count):
        if len(found) == settings.count:
            break
        try:
            found[space.sample(rng)] = None
        except Infeasible:
            break
    return list(found)


def _outputs(kernel: CompiledKernel, given: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs that all kernels write, because no two pieces of memory are equally fast."""
    made = kernel(*given)
    return made if isinstance(made, tuple) else (made,)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a kernel that computes something else, 2 a wrong request."""
    options = _parser().parse_args(argv)
    every = rows(options.dry_run)
    wanted = options.rows or ([""] if options.dry_run else None)
    chosen = [
        r for r in every
        if (r.name in TEN if wanted is None else any(text in r.name for text in wanted))
    ]  # fmt: skip
    if not chosen or options.estimate not in ESTIMATES:
        print(f"no such row or estimate; estimates are {', '.join(ESTIMATES)}; rows are:\n  "
              + "\n  ".join(row.name for row in every), file=sys.stderr)  # fmt: skip
        return 2
    rounds, min_ms = (2, 0.2) if options.dry_run else (options.rounds, options.min_ms)
    settings = Settings(
        options.count, rounds, min_ms, options.seconds, options.seed, options.threads
    )
    found: list[Ranked] = []
    for row in chosen:
        begun = time.perf_counter()
        found.append(rank(workload(row), ESTIMATES[options.estimate], settings))
        taken = time.perf_counter() - begun
        print(f"{row.name}: Spearman {found[-1].correlation:.2f} ({taken:.0f} s)", flush=True)
        for plan in found[-1].wrong:
            print(f"{row.name}: the kernel of {plan} gives other results", file=sys.stderr)
    _publish(found, options)
    return 1 if any(row.wrong for row in found) else 0


def _publish(found: Sequence[Ranked], options: argparse.Namespace) -> None:
    print()
    header = ["operator", "plans", "refused", "Spearman", "pairs", "first / best",
              "best ms"]  # fmt: skip
    show_table(header, [row.cells() for row in found])
    known = [row.correlation for row in found if not math.isnan(row.correlation)]
    if known:
        print(f"estimate {options.estimate!r}: rank correlation {min(known):.2f} at least, "
              f"{np.median(known):.2f} in the median; first / best is the time of the plan that it "
              "puts first over that of the fastest one, pairs those ordered right")  # fmt: skip
    said = disturbance(row.others for row in found)
    if said:
        print(said)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        data = {"estimate": options.estimate, "machine": this_machine().to_json(),
                "rows": [row.to_json() for row in found]}  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rank", description=(__doc__ or "").split("\n")[0]
    )
    add: Any = parser.add_argument
    add("--rows", action="append", metavar="TEXT", help="rows with TEXT in their name")
    add("--count", type=int, default=60, metavar="N", help="plans of each row (default: 60)")
    add("--estimate", default="formula", help=f"of {', '.join(ESTIMATES)} (default: formula)")
    add("--threads", type=int, default=this_machine().cores, help="(default: all)")
    add("--rounds", type=int, default=5, help="blocks of each plan (default: 5)")
    add("--min-ms", type=float, default=2.0, help="of a block (default: 2)")
    add("--seconds", type=float, default=8.0, help="no round of a row begins after (default: 8)")
    add("--seed", type=int, default=0, help="of the draws (default: 0)")
    add("--json", type=Path, metavar="FILE", help="where to write all plans (default: nowhere)")
    add("--quick", "--dry-run", action="store_true", dest="dry_run", help="tiny sizes: a trial")
    return parser


if __name__ == "__main__":
    sys.exit(main())
