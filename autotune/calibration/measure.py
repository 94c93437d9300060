"""From the times of small programs to Costs: what happens in a cycle, and how many a step takes.

A cycle is what a chain of integer operations says it is, timed in turns with everything else, so
that no clock frequency has to be known and one that changes does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from math import isfinite
from statistics import median

import numpy as np

from autotune.calibration.programs import Probe, probes
from autotune.errors import MeasureError
from autotune.measure import machine_lock
from backends import CompiledKernel, Timing, build, host_threads, interleave
from tensorir import Costs, Cpu, Target

ROUNDS, BLOCK_MS, LIMIT_SECONDS = 40, 2.0, 4.0
"""Short blocks in turns: of each program some are undisturbed, even where other programs run."""

LEAST, MOST = 1e-3, 1e7
"""Cycles that are believed; anything else was no measurement."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a processor.

    costs   those of `Costs` that can be, by name
    others  what stands beside them: a line from memory while one thread reads, and GHz
    """

    costs: Mapping[str, float]
    others: Mapping[str, float]

    def applied(self, costs: Costs = Costs()) -> Costs:
        """`costs` with what was measured."""
        known = {f.name for f in fields(costs)}
        return replace(costs, **{k: v for k, v in self.costs.items() if k in known})


def measure_costs(target: Target) -> Measured:
    """What the steps of a resolved target's processor cost; takes less than ten seconds.

    Raises BuildError where nothing can be compiled, and MeasureError where the times make no sense,
    as on a machine that others use all the time.
    """
    cpu = Cpu(target)
    known = dict(probes(cpu))
    with ThreadPoolExecutor(host_threads()) as pool:
        kernels = list(pool.map(lambda probe: build(probe.schedule, target), known.values()))
    with machine_lock():
        timings = _in_turns(kernels)
    return derived(cpu, known, dict(zip(known, timings)))


def believed(cycles: object) -> bool:
    """Whether a number can be what a step of a processor costs."""
    return isinstance(cycles, (int, float)) and isfinite(cycles) and LEAST <= cycles <= MOST


def _in_turns(kernels: list[CompiledKernel]) -> list[Timing]:
    """Times of all, on arrays that are filled: pages that nobody wrote are all the same one."""
    subjects = [
        (k, *(np.ones(p.const_shape, p.dtype) for p in k.signature.params)) for k in kernels
    ]
    for kernel, *arrays in subjects:
        kernel.timer(*arrays)(2)  # threads have begun, and caches are filled
    return interleave(subjects, rounds=ROUNDS, min_ms=BLOCK_MS, limit_s=LIMIT_SECONDS)


def derived(cpu: Cpu, known: Mapping[str, Probe], timings: Mapping[str, Timing]) -> Measured:
    """The costs that such times of the programs mean.

    Times are the best of all blocks, since whatever disturbs a block makes it longer; but starting
    threads takes as long as it usually does. A line never comes faster from farther away.
    """
    tick = min(timings["clock"].times) / known["clock"].count
    each = {name: min(timings[name].times) / tick / known[name].count for name in known}
    near = each["l1 lines"]

    def line(name: str, hidden: float = cpu.costs.hidden) -> float:
        """Cycles of a line beside the work on it, of which a share is hidden behind the other, as
        the estimate of time has it."""
        beside = each[name] - (1 - hidden) * near
        return beside if beside >= near else (each[name] - near) / (1 - hidden)

    memory = line("memory lines")
    third = min(line("l3 lines"), memory)
    second = min(line("l2 lines"), third)
    starts = median(timings["parallel"].times) - median(timings["serial"].times)
    costs = {
        "units": 1 / each["units"],
        "ports": 1 / min(each["loads"], near * cpu.line_bytes / cpu.vector_bytes),
        "latency": each["latency"],
        "l2": second,
        "l3": third - second,
        "memory": memory - third,
        "start": max(starts / tick, 1.0) if cpu.threads > 1 else cpu.costs.start,
        "copy": each["packed"],
        "copy_turned": each["packed, turned"],
        "transpose": each["turned"] - cpu.costs.sum_,
    }
    alone = line("memory lines, one thread") - third
    found = Measured(costs, {"memory, one thread": alone, "GHz": 1e-9 / tick})
    wrong = {k: v for k, v in costs.items() if not believed(v)}
    if wrong:
        told = ", ".join(f"{name} {value:.3g}" for name, value in wrong.items())
        raise MeasureError(
            f"the costs of this processor cannot be measured: {told} cycles make no sense; "
            "calibrate when nothing else runs"
        )
    return found
