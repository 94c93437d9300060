"""Random programs scheduled for machines so small that a few kilobytes lie in memory: caches of a
few lines, threads that start for nothing, costs of all kinds, limits that small programs exceed.
What rules, library and lowering do for large programs alone is done to small ones here.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tensorir import Costs

sys.path.insert(0, str(Path(__file__).parent))
import invented  # noqa: E402
import network_checks  # noqa: E402
import networks  # noqa: E402

TARGETS = ["c", "c", "c -march=haswell", "c -march=x86-64"]

LIMITS: dict[str, list[Any]] = {
    "autotune.rules.stores.STREAM_FROM": [1, 256],
    "autotune.rules.find_chain.LONG_ROW": [1, 16, 64],
    "autotune.rules.spatial.MOST_WRITTEN": [8, 64],
    "autotune.rules.transposed.MOST_WRITTEN": [8, 64],
    "autotune.rules.stencil.RUN": [16, 128],
    "autotune.streams.HUGE": [64, 4096],
    "schedule.library.contraction.copies.LONGEST": [16, 64],
    "backends.emit.long_runs.RUN": [64, 256],
    "backends.c.emit.parallel.LEAST_WORK": [0, 64],
    "backends.c.emit.parallel.ParallelEmitter.stack_bytes": [0, 64, 1024],
    "tensorir.passes.vectors.masked_tails.SMALL": [64, 1024],
    "tensorir.passes.conditions.unswitch.LIMIT": [16, 64],
    "tensorir.passes.partition_loops.LONG": [4, 16],
    "tensorir.passes.unroll.LIMIT": [32, 256],
}
"""Constants, and what they are set to: from then on what exceeds them is treated as large."""


class Case(network_checks.Case):
    """One seed: its program, and its machine."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(f"small {seed}").choice
        super().__init__(seed, pick([networks.draw, invented.draw]), TARGETS)
        threads, l1 = pick([1, 2, 3, 7]), pick([256, 1024, 4096])
        l2, l3 = (l1 * pick([1, 2, 8]) for _ in range(2))
        self.target += f" -threads={threads} -l1d={l1} -l2={l2} -l3={max(l2, l3)}"
        usual = dataclasses.asdict(Costs())
        drawn = {name: cost * pick([0.1, 1, 1, 1, 10]) for name, cost in usual.items()}
        drawn["start"] = pick([0.0, 0.0, 100.0])
        self.costs = Costs(**drawn)
        self.limits = {name: pick(values) for name, values in LIMITS.items() if pick([0, 0, 1])}


def owner(name: str) -> tuple[Any, str]:
    """The module or class that has a constant, and how it is called there."""
    path, _, key = name.rpartition(".")
    module, _, last = path.rpartition(".")
    return (getattr(import_module(module), last) if last[0].isupper() else import_module(path)), key


def find(name: str) -> Any:
    """What a constant is now."""
    return getattr(*owner(name))


@contextmanager
def limits(given: dict[str, Any]) -> Iterator[None]:
    """Constants, named with their modules and classes, are set to something else inside."""
    before = {name: find(name) for name in given}
    try:
        for name, value in given.items():
            setattr(*owner(name), value)
        yield
    finally:
        for name, value in before.items():
            setattr(*owner(name), value)


def check_seed(seed: int) -> dict[str, Any]:
    """Everything about one seed, as a row for the fuzzer."""
    case = Case(seed)
    with limits(case.limits):
        row = network_checks.check_case(case)
    if row["finding"]:
        row["finding"]["program"] = f"# limits {case.limits}\n{row['finding']['program']}"
    return row
