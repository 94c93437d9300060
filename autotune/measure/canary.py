"""A canary: a fixed piece of work, timed before and after each block, that falls silent first.

It tells what the time of a kernel cannot: that the machine, not the candidate, became slower.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from autotune.noise.visits import Visit

REPEATS = 40
"""Passes over 16 KiB: about 40 us, and beyond the first cache stays what a kernel left there."""

REMEMBERED = 64

TASKS = Path("/proc/self/task")


class Canary:
    """Knows how long its work usually takes on this machine, of late."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._values = np.linspace(1.0, 2.0, 2048, dtype=np.float32)
        self._out = np.empty_like(self._values)
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        for _ in range(8):
            self.slowness()

    def slowness(self) -> float:
        """The time of its work now / that of the quicker ones of late."""
        taken = min(self._work() for _ in range(3))  # an interrupt is no change of the machine
        self._recent.append(taken)
        # np.quantile would load numpy.ma, which takes longer than timing a candidate.
        return taken / sorted(self._recent)[(len(self._recent) - 1) // 4]

    def visit(self, timer: Callable[[int], float], calls: int) -> Visit:
        """One block of a kernel's timer, with what the system and the canary tell of it."""
        before, start = self.slowness(), self._clock()
        begun = _usage()
        seconds = timer(calls) / calls
        switches, faults, waited = (b - a for a, b in zip(begun, _usage()))
        lasted = self._clock() - start
        return Visit(
            seconds,
            lasted=round(lasted, 6),
            canary=round(max(before, self.slowness()), 3),
            switches=int(switches),
            faults=int(faults),
            waited=round(waited, 6) if waited == waited else None,
        )

    def _work(self) -> float:
        start = self._clock()
        for _ in range(REPEATS):
            np.multiply(self._values, self._values, out=self._out)
        return self._clock() - start


def _usage() -> tuple[float, float, float]:
    """Until now: involuntary context switches of all threads, page faults that read a disk, and
    seconds that threads were ready to run and had no processor; nan where that is not known."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nivcsw, used.ru_majflt, _waited()


def _waited() -> float:
    """Linux tells it of each thread, in nanoseconds; one that ends meanwhile is left out."""
    total, known = 0, False
    tasks: list[str] = []
    with suppress(OSError):  # paths, and a pattern of them, took longer than reading the files
        tasks = os.listdir(TASKS)
    for task in tasks:
        with suppress(OSError, ValueError, IndexError), open(f"{TASKS}/{task}/schedstat") as file:
            total += int(file.read().split()[1])
            known = True
    return total / 1e9 if known else math.nan
