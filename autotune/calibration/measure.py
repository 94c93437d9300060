"""From the times of small programs to Costs: what happens in a cycle, and how many a step takes.

A cycle is what a chain of integer operations says it is, timed in turns with everything else, so
that no clock frequency has to be known and one that changes does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from math import isfinite
from time import perf_counter

import numpy as np

from autotune.calibration.programs import Probe, probes
from autotune.errors import MeasureError
from autotune.measure import machine_lock
from autotune.measure.busy import TOLERABLE, Neighbours
from backends import CompiledKernel, Timing, build, host_threads, interleave, lasting
from tensorir import Costs, Cpu, Target

ROUNDS, BLOCK_MS, LIMIT_SECONDS = 100, 2.0, 5.0
"""Short blocks in turns: of each program some are undisturbed, even where other programs run."""

START_ROUNDS, START_CALLS, START_SECONDS = 60, 200, 1.0

LEAST, MOST = 1e-3, 1e7
"""Cycles that are believed; anything else was no measurement."""


OTHERS = "other programs"
"""Beside them a line from memory, of which there is one for all, takes as long as they let it."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a processor.

    costs   those of `Costs` that can be, by name
    others  what stands beside them: a line from memory while one thread reads, GHz, and the share
            of the processors that `OTHERS` used meanwhile, if any
    """

    costs: Mapping[str, float]
    others: Mapping[str, float]

    def applied(self, costs: Costs) -> Costs:
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
    arrays = [_arrays(probe) for probe in known.values()]
    parallel = list(known).index("parallel")
    neighbours = Neighbours()
    with machine_lock(), neighbours.watching():
        starts = start_seconds(kernels[parallel], *arrays[parallel])
        subjects = [(kernel, *given) for kernel, given in zip(kernels, arrays)]
        timings = interleave(subjects, rounds=ROUNDS, min_ms=BLOCK_MS, limit_s=LIMIT_SECONDS)
    found, share = derived(cpu, known, dict(zip(known, timings)), starts), neighbours.share()
    if share is None or share <= TOLERABLE:
        return found
    return replace(found, others={**found.others, OTHERS: share})


def _arrays(probe: Probe) -> list[np.ndarray]:
    """Arguments that begin with a line, so that what is measured is not where they happen to lie,
    and that somebody wrote: pages that nobody did are all one and the same."""
    found = [lasting(param.const_shape or (), param.dtype) for param in probe.func.params]
    for array in found:
        array.fill(1)
    return found


def start_seconds(kernel: CompiledKernel, *arrays: np.ndarray) -> float:
    """A call of a parallel loop with hardly any work, of many one after the other."""
    seconds = kernel.timer(*arrays)
    begun, found = perf_counter(), [seconds(START_CALLS) / START_CALLS]
    while len(found) < START_ROUNDS and perf_counter() - begun < START_SECONDS:
        found.append(seconds(START_CALLS) / START_CALLS)
    return usual(found)


def usual(times: Sequence[float]) -> float:
    """The time of blocks that nothing disturbed: whatever does makes them longer, and the best of
    all are those in which the clock happened to be faster than for others."""
    return float(np.quantile(times, 0.25))


def believed(cycles: object) -> bool:
    """Whether a number can be what a step of a processor costs."""
    return isinstance(cycles, (int, float)) and isfinite(cycles) and LEAST <= cycles <= MOST


def derived(
    cpu: Cpu, known: Mapping[str, Probe], timings: Mapping[str, Timing], starts: float
) -> Measured:
    """The costs that such times of the programs mean.

    A line never comes faster from farther away. `starts` are the seconds of starting all threads.
    """
    tick = usual(timings["clock"].times) / known["clock"].count
    each = {name: usual(timings[name].times) / tick / known[name].count for name in known}
    near = each["l1 lines"]

    def line(name: str) -> float:
        """Cycles of a line, of which and of the work on it a part goes on beside the other, as the
        estimate of time has it."""
        open_part = 1 - cpu.costs.hidden
        beside = each[name] - open_part * near
        return beside if beside >= near else (each[name] - near) / open_part

    memory = line("memory lines")
    third = min(line("l3 lines"), memory)
    second = min(line("l2 lines"), third)
    costs = {
        "units": cpu.vector / each["units"],
        "ports": cpu.vector / min(each["loads"], near * cpu.vector_bytes / cpu.line_bytes),
        "latency": each["latency"],
        "l2": max(second, LEAST),
        "l3": max(third - second, LEAST),
        "memory": max(memory - third, LEAST),
        "start": starts / tick if cpu.threads > 1 else cpu.costs.start,
        "copy": each["packed"],
        "copy_turned": each["packed, turned"],
        "transpose": each["turned"] - cpu.costs.sum_,
    }
    alone = max(line("memory lines, one thread") - third, LEAST)
    found = Measured(costs, {"memory, one thread": alone, "GHz": 1e-9 / tick})
    wrong = {k: v for k, v in costs.items() if not believed(v)}
    if wrong:
        told = ", ".join(f"{name} {value:.3g}" for name, value in wrong.items())
        raise MeasureError(
            f"the costs of this processor cannot be measured: {told} cycles make no sense; "
            "calibrate when nothing else runs"
        )
    return found
