"""Operators in one program, over the sum of the same operators one by one, in one run.

python -m benchmarks.general.together [--rows TEXT] [--threads N] [--json FILE] [--dry-run] ...
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune import default_schedule
from autotune.machine.machine import this_machine
from autotune.measure import machine_lock
from autotune.measure.busy import Neighbours, disturbance
from backends import (
    Comparison,
    CompiledKernel,
    Timing,
    build,
    compare,
    interleave,
    lasting,
    resolve,
)
from benchmarks.general.composed import Composed, composed
from benchmarks.table import show_table, times
from tensorir import PrimFunc, TensorIRError

BOUND = 1.05
"""The most that a program may take over the sum of its parts."""

TOLERANCE = 1e-4
"""Of results, relative to the largest number."""


@dataclass(frozen=True)
class Together:
    """The times of a program, of its operators and of all of these in turn, and why there are none,
    if so."""

    name: str
    whole: Timing | None
    parts: dict[str, Timing]
    others: float | None
    failure: str = ""
    in_turn: Timing | None = None

    @property
    def beside(self) -> Comparison | None:
        """The program over its operators called one after the other, as a program does: operands
        that a cache holds as long as one operator alone is repeated are read again then."""
        if self.whole is None or self.in_turn is None:
            return None
        return compare(self.whole, self.in_turn)

    @property
    def ratio(self) -> Comparison | None:
        """The program over the sum of its parts."""
        if self.whole is None:
            return None
        return compare(self.whole, Timing(tuple(map(sum, zip(*self._blocks))), 1))

    @property
    def _blocks(self) -> list[tuple[float, ...]]:
        return [timing.times for timing in self.parts.values()]

    def cells(self) -> list[str]:
        if self.whole is None or self.ratio is None or self.beside is None:
            return [self.name, "", "", self.failure, ""]
        apart = " + ".join(f"{t.median * 1e3:.3f}" for t in self.parts.values())
        ratios = times(self.ratio), times(self.beside)
        return [self.name, f"{self.whole.median * 1e3:.3f}", apart, *ratios]

    def to_json(self) -> dict[str, Any]:
        found = self.ratio
        return {
            "name": self.name, "failure": self.failure, "others": self.others,
            "whole": self.whole and list(self.whole.times),
            "parts": {name: list(timing.times) for name, timing in self.parts.items()},
            "in_turn": self.in_turn and list(self.in_turn.times),
            "ratio": found and [found.ratio, found.low, found.high],
        }  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Threads of kernels; blocks of each, how long one is, and when no round is begun."""

    threads: int
    rounds: int
    min_ms: float
    seconds: float


class _Ready:
    """A kernel with the arrays that it is called with."""

    def __init__(self, func: PrimFunc, held: dict[str, Any], values: dict[str, Any], target: Any):
        constants = {name: held[name] for name in held if name in [p.name for p in func.inputs]}
        schedule = default_schedule(func, target, tuple(constants))
        self.kernel: CompiledKernel = build(schedule, target, constants=constants)
        given = [values[p.name] for p in func.inputs if p.name not in constants]
        outputs = [lasting(p.const_shape or (), p.dtype) for p in func.outputs]
        self.subject = (self.kernel, *given, *outputs)
        self.kernel(*given, *outputs)
        self.outputs = outputs


def together(program: Composed, settings: Settings) -> Together:
    """Build a program and its parts, compare their results, and time them in turns."""
    target = resolve(f"c -threads={settings.threads}")
    rng = np.random.default_rng(0)
    values = {
        name: np.abs(rng.standard_normal(shape, np.float32)) + 0.5 if name == "var"
        else rng.standard_normal(shape, np.float32)
        for name, shape in program.shapes.items()
    }  # fmt: skip
    held = {name: values[name] for name in program.constants}
    try:
        whole = _Ready(program.whole, held, values, target)
        parts = {}
        for step in program.steps:
            parts[step.name] = _Ready(program.part(step), held, values, target)
            (values[step.name],) = parts[step.name].outputs
        for name, found in zip(program.results, whole.outputs):
            _same(name, found, values[name])
    except TensorIRError as error:
        return Together(program.name, None, {}, None, str(error).partition("\n")[0])
    neighbours = Neighbours()
    with machine_lock(), neighbours.watching():
        apart = [each.subject for each in parts.values()]
        subjects = [whole.subject, (_in_turn, apart), *apart]
        first, turn, *rest = interleave(
            subjects, settings.rounds, settings.min_ms, settings.seconds
        )
    found = dict(zip(parts, rest))
    return Together(program.name, first, found, neighbours.share(), in_turn=turn)


def _in_turn(subjects: Sequence[tuple[Any, ...]]) -> None:
    for kernel, *args in subjects:
        kernel(*args)


def _same(name: str, found: Any, wanted: Any) -> None:
    most = float(np.max(np.abs(wanted), initial=0)) or 1.0
    off = float(np.max(np.abs(found - wanted), initial=0)) / most
    if not off <= TOLERANCE:
        raise TensorIRError(f"{name!r} is off by {off:.2g} of the largest number; it has no time")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a program without a time, 2 a wrong request."""
    options = _parser().parse_args(argv)
    every = composed(options.dry_run)
    chosen = [p for p in every if any(text in p.name for text in options.rows or [""])]
    if not chosen:
        print("no such row; rows are:\n  " + "\n  ".join(p.name for p in every), file=sys.stderr)
        return 2
    rounds, min_ms = (3, 0.2) if options.dry_run else (options.rounds, options.min_ms)
    settings = Settings(options.threads, rounds, min_ms, options.seconds)
    found = [together(program, settings) for program in chosen]
    columns = ["program", "ms", "its parts, ms", "over their sum", "over them in turn"]
    show_table(columns, [row.cells() for row in found])
    known = [row.ratio.ratio for row in found if row.ratio is not None]
    if known:
        mean = math.exp(sum(map(math.log, known)) / len(known))
        over = f"{sum(ratio > BOUND for ratio in known)} of {len(known)}"
        print(f"geometric mean {mean:.2f}; {over} take more than {BOUND} of the sum")
    said = disturbance(row.others for row in found)
    if said:
        print(said)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        data = {"machine": this_machine().to_json(), "threads": options.threads,
                "rows": [row.to_json() for row in found]}  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.failure for row in found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.general.together", description=(__doc__ or "").split("\n")[0]
    )
    add: Any = parser.add_argument
    add("--rows", action="append", metavar="TEXT", help="programs with TEXT in their name")
    add("--threads", type=int, default=this_machine().cores, help="(default: all)")
    add("--rounds", type=int, default=15, help="blocks of each kernel (default: 15)")
    add("--min-ms", type=float, default=5.0, help="of a block (default: 5)")
    add("--seconds", type=float, default=60.0, help="no round of a row begins after (default: 60)")
    add("--json", type=Path, metavar="FILE", help="where to write all times (default: nowhere)")
    add("--dry-run", action="store_true", help="tiny sizes: shows that it works")
    return parser


if __name__ == "__main__":
    sys.exit(main())
