"""Timing: blocks of calls, all of them kept, and honest comparisons.

A figure is a set of block times. What is compared is taken in turns in one run, so that a machine
that changes speed slows both sides, and a ratio comes with its interval.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tensorir import TensorIRError, checked

Seconds = Callable[[int], float]
"""From a number of calls to the seconds that they took together."""

CONFIDENCE = 0.95
RESAMPLES = 2000
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True)
class Timing:
    """Seconds per call of every block, in the order taken; each block is the mean of `calls`."""

    times: tuple[float, ...]
    calls: int

    @property
    def median(self) -> float:
        return float(np.median(self.times))

    @property
    def min(self) -> float:
        return min(self.times)

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval of the median, from order statistics: it assumes no distribution.

        With fewer than six blocks no pair of them has that confidence; it is their range then.
        """
        ranked = sorted(self.times)
        k = _interval_rank(len(ranked))
        return ranked[k], ranked[-1 - k]

    @property
    def spread(self) -> float:
        """Half the width of `interval`, relative to the median."""
        low, high = self.interval
        return (high - low) / 2 / self.median if self.median else 0.0

    def __repr__(self) -> str:
        blocks = f"{len(self.times)} blocks of {self.calls} calls"
        return f"{format_seconds(self.median)} +- {self.spread * 100:.1f} %  ({blocks})"


@dataclass(frozen=True)
class Comparison:
    """How long one thing takes relative to another; `low` and `high` bound the ratio (95 %)."""

    ratio: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.ratio:.3f} x  [{self.low:.3f}, {self.high:.3f}]"


@checked
def measure(
    seconds: Seconds, repeats: int = 20, min_ms: float = 5.0, limit_s: float = 10.0
) -> Timing:
    """Time `repeats` blocks of at least `min_ms` each, after a warm-up.

    At least one block is taken, and none is begun once `limit_s` seconds have passed.
    """
    _check_protocol(repeats, min_ms)
    start = clock.perf_counter()
    calls = calibrate(seconds, min_ms)
    times = [seconds(calls) / calls]
    while len(times) < repeats and clock.perf_counter() - start < limit_s:
        times.append(seconds(calls) / calls)
    return Timing(tuple(times), calls)


def calibrate(seconds: Seconds, min_ms: float) -> int:
    """The number of calls that fills a block of `min_ms`; the calls made to find out warm up."""
    wanted = min_ms / 1e3
    calls, taken = 1, seconds(1)
    while taken < wanted:
        # At most tenfold a step, since the first calls are slow and the clock has a resolution.
        grown = math.ceil(calls * min(10.0, 1.1 * wanted / max(taken, 1e-9)))
        calls = max(calls + 1, grown)
        taken = seconds(calls)
    return calls


def interleave(
    subjects: Sequence[Any], rounds: int = 20, min_ms: float = 5.0, limit_s: float = math.inf
) -> list[Timing]:
    """Time several things in turns: block r of all is taken before block r + 1 of any.

    A subject is a kernel (timed on random inputs), a tuple (kernel, *args) or (function, *args),
    or a function without arguments. Kernels are timed in compiled code, functions in Python, which
    adds about 0.1 us a call. Every round has another order. No round is begun after `limit_s`.
    """
    _check_protocol(rounds, min_ms)
    timers = [seconds_of(subject) for subject in subjects]
    calls = [calibrate(seconds, min_ms) for seconds in timers]
    times: list[list[float]] = [[] for _ in timers]
    rng = np.random.default_rng(0)
    start = clock.perf_counter()
    for number in range(rounds):
        if number and clock.perf_counter() - start > limit_s:
            break
        for i in rng.permutation(len(timers)):
            times[i].append(timers[i](calls[i]) / calls[i])
    return [Timing(tuple(t), c) for t, c in zip(times, calls, strict=True)]


@checked
def compare(a: Timing, b: Timing, seed: int = 0) -> Comparison:
    """The ratio of the medians a / b, with a bootstrap interval.

    Timings with equally many blocks are taken for rounds of one `interleave` and resampled
    together, which cancels changes of the machine that hit both.
    """
    if seed < 0:
        raise TensorIRError(f"seed is {seed}: give an integer from 0 on")
    x, y = np.asarray(a.times), np.asarray(b.times)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(x), (RESAMPLES, len(x)))
    columns = rows if len(x) == len(y) else rng.integers(0, len(y), (RESAMPLES, len(y)))
    ratios = np.median(x[rows], axis=1) / np.median(y[columns], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return Comparison(a.median / b.median, float(low), float(high))


def seconds_of(subject: Any) -> Seconds:
    """The timer of a subject of `interleave`."""
    head, *args = subject if isinstance(subject, tuple) else (subject,)
    if hasattr(head, "timer"):
        timer: Seconds = head.timer(*args)
        return timer
    if not callable(head):
        raise TensorIRError(
            f"{head!r} cannot be timed; pass a kernel, a function, or a tuple (kernel, *args)"
        )

    def seconds(calls: int) -> float:
        start = clock.perf_counter()
        for _ in range(calls):
            head(*args)
        return clock.perf_counter() - start

    return seconds


def format_seconds(seconds: float) -> str:
    """Four digits and a unit: "1.234 ms"."""
    for scale, unit in UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _interval_rank(count: int) -> int:
    """The largest k such that ranks k and count - 1 - k enclose the median with CONFIDENCE."""
    tail, k = 0.0, 0
    while k < count // 2:
        tail += math.comb(count, k) / 2.0**count
        if 2 * tail > 1 - CONFIDENCE:
            break
        k += 1
    return max(k - 1, 0)


def _check_protocol(repeats: int, min_ms: float) -> None:
    """NaN is no number here, and no block of infinite length ends."""
    numbers = isinstance(repeats, Real) and isinstance(min_ms, Real)
    if not numbers or not repeats >= 1 or not 0 < min_ms < math.inf:
        raise TensorIRError(
            f"{repeats} blocks of {min_ms} ms cannot be timed; both have to be positive numbers"
        )
