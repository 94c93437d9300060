"""How many calls make a block, and the first calls of a candidate, which may show enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

CALLS = 5
"""Calls in a block, at most: evicting takes milliseconds."""


HOPELESS, LONG = 3.0, 0.05
"""A first call condemns where it takes so many times the limit, and so many seconds: waking threads
and loading caches takes far less."""


def calls_per_block(timer: Callable[[int], float], min_ms: float) -> int:
    """How many calls take `min_ms`; finding out warms up."""
    wanted, calls = min_ms / 1000, 1
    taken = timer(1)
    while taken < 0.9 * wanted:
        # At most tenfold a step, since the first calls are slow.
        calls = max(calls + 1, math.ceil(calls * min(10.0, wanted / max(taken, 1e-9))))
        taken = timer(calls)
    return calls


def first_calls(timer: Callable[[int], float], limit: float, seconds: float) -> list[float]:
    """Times of single calls: two at least and for `seconds`, or until one is within `limit`.

    The very first calls also wake threads and load caches, which must not condemn a candidate.
    """
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        times.append(timer(1))
        if times[-1] <= limit:
            break
    return times


def is_hopeless(first: float, limit: float) -> bool:
    """Whether a very first call of so many seconds shows that a kernel takes more than `limit`."""
    return first > max(HOPELESS * limit, LONG)


def pruned(times: Sequence[float], limit: float) -> dict[str, Any]:
    """Of one whose calls took so long, where `limit` is the most that is looked at."""
    return {
        "status": "pruned", "times": list(times), "median": median(times),
        "error": f"slower than {limit:.3g} s",
    }  # fmt: skip


def cold_calls(timer: Callable[[int], float], min_ms: float) -> int:
    """How many calls make a block: as many as take `min_ms`, but no more than CALLS."""
    taken = max(timer(1), 1e-9)
    return max(1, min(CALLS, math.ceil(min_ms / 1000 / taken)))
