"""Cold caches: before each call the caches of all processors are filled with something else.

Calls that follow one another find in the caches what the one before left there. In a program where
much else is computed between two calls they do not, and another schedule may be the fastest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from autotune.errors import MeasureError
from backends import host_caches, host_processors, resolve
from tensorir import Cpu, device_of

USUAL = {"L2": 2 << 20, "L3": 64 << 20}
"""Bytes, where the system does not tell."""

Seconds = Callable[[int], float]
"""From a number of calls to the seconds that they took."""


class ColdCaches:
    """Evicts from each processor that this process may use what lies in its own caches, and from
    those that they share their part of it, twice over.

    Made before any kernel runs: OpenMP may bind this thread to one processor then.
    """

    def __init__(self, caches: Mapping[str, int] | None = None) -> None:
        known = {**USUAL, **(host_caches() if caches is None else caches)}
        self._processors = host_processors()
        share = known["L3"] // len(self._processors)
        size = 2 * (known["L2"] + share)
        self._buffers = [np.ones(size // 8) for _ in self._processors]
        self._threads = ThreadPoolExecutor(len(self._processors), thread_name_prefix="evict")

    def evict(self) -> None:
        """Read and write a buffer of its own on each processor, at the same time."""
        list(self._threads.map(self._sweep, range(len(self._processors))))

    def timer(self, seconds: Seconds) -> Seconds:
        """A timer of calls that each begin with cold caches; only the calls are timed."""

        def cold(calls: int) -> float:
            total = 0.0
            for _ in range(calls):
                self.evict()
                total += seconds(1)
            return total

        return cold

    def close(self) -> None:
        self._threads.shutdown()

    def _sweep(self, at: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {self._processors[at]})  # of this thread
        np.add(self._buffers[at], 1.0, out=self._buffers[at])


def check_cold(target: str) -> None:
    """Raise MeasureError for a target whose caches are not those of this machine's processors."""
    if not isinstance(device_of(resolve(target)), Cpu):
        raise MeasureError(
            f"cache='cold' empties the caches of processors, and {target!r} has others: measure "
            "with cache='hot'"
        )
