"""Timing kernels beside libraries that keep threads of their own.

The idle threads of OpenBLAS spin for a tenth of a second after each call and slow whatever runs
next, and so do those of OpenMP for some milliseconds. So in every round the libraries come last,
between pauses, and every block begins with untimed calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping

import numpy as np

from backends import Timing

PAUSE_S = 0.15
SLOW_S = 0.1
"""A call this long needs no warm-up, and takes part in every SLOW_EVERY-th round only."""

SLOW_EVERY = 5
WARM_UP = 10
"""A block of so many calls is preceded by one more untimed call."""


def side_by_side(
    subjects: Mapping[str, Callable[[], object]],
    rounds: int = 20,
    min_ms: float = 10.0,
    pause_s: float | None = None,
    last: Collection[str] = (),
) -> dict[str, Timing]:
    """Time functions without arguments in turns, in blocks of at least `min_ms` each.

    Every round has another order, with the subjects in `last` at its end and a pause before and
    after each of those. Calls that take longer than SLOW_S are timed in fewer blocks, which are
    spread over the whole run. Pauses take PAUSE_S if nothing is said.
    """
    pause_s = PAUSE_S if pause_s is None else pause_s
    calls = {name: _calls(subject, min_ms / 1e3) for name, subject in subjects.items()}
    slow = {name for name, (_, seconds) in calls.items() if seconds > SLOW_S}
    times: dict[str, list[float]] = {name: [] for name in subjects}
    order = np.random.default_rng(0)
    names = list(subjects)
    time.sleep(pause_s)
    for number in range(rounds):
        turns = [names[place] for place in order.permutation(len(names))]
        for name in sorted(turns, key=lambda name: name in last):
            if name in slow and number % SLOW_EVERY:
                continue
            count = calls[name][0]
            if name in last:
                time.sleep(pause_s)
            if name not in slow:
                _block(subjects[name], 1 + count // WARM_UP)
            times[name].append(_block(subjects[name], count) / count)
            if name in last:
                time.sleep(pause_s)
    return {name: Timing(tuple(times[name]), calls[name][0]) for name in names}


def _calls(subject: Callable[[], object], wanted: float) -> tuple[int, float]:
    """How many calls fill a block of `wanted` seconds, and the seconds of one of them."""
    count, taken = 1, _block(subject, 1)
    if taken < SLOW_S:  # the first call was cold
        taken = min(taken, _block(subject, 1))
    while taken < wanted:
        count = max(count + 1, math.ceil(count * min(10.0, 1.1 * wanted / max(taken, 1e-9))))
        taken = _block(subject, count)
    return count, taken / count


def _block(subject: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        subject()
    return time.perf_counter() - start
