"""How many calls make a block, and the first calls of a candidate, which may show enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

CALLS = 5
"""Calls in a block with cold caches, at most: evicting takes milliseconds."""

GROWTH = 100.0
"""How many times as long a block may be as the one before: a clock that ticks seldom may say that a
call takes no time. First calls are slow, if anything, which makes a block too short and not too
long."""

HOPELESS, LONG = 3.0, 0.05
"""A first call condemns where it takes so many times the limit, and so many seconds: waking threads
and loading caches takes far less."""

FIRST = 4e-3
"""Seconds from which on a very first call is little longer for being that: a fiftieth for products
of 1024, whose memory is new then."""


def more_calls(calls: int, taken: float, min_ms: float, most: float = math.inf) -> int:
    """How many calls a longer block has, where so many took `taken` seconds together; the same
    number where that is `min_ms`, or where `most` are reached."""
    wanted = min_ms / 1000
    if taken >= 0.9 * wanted or calls >= most:
        return calls
    grown = math.ceil(calls * min(GROWTH, wanted / max(taken, 1e-9)))
    return int(min(max(calls + 1, grown), most))


def slow_calls(
    first: Sequence[float], timer: Callable[[int], float], limit: float, seconds: float
) -> list[float]:
    """Times of single calls, the `first` ones among them: two at least and for `seconds`, or until
    one is within `limit`.

    The very first calls also wake threads and load caches, which must not condemn a candidate.
    """
    times = [*first]
    while times[-1] > limit and (len(times) < 2 or sum(times) < seconds):
        times.append(timer(1))
    return times


def is_hopeless(first: float, limit: float) -> bool:
    """Whether a very first call of so many seconds shows that a kernel takes more than `limit`."""
    return first > max(HOPELESS * limit, LONG)


def is_block(first: float, min_ms: float) -> bool:
    """Whether a very first call of so many seconds is a block of one call as any later one: it is
    as long as a block, and waking threads is little of it."""
    return first >= FIRST and more_calls(1, first, min_ms) == 1


def pruned(times: Sequence[float], limit: float) -> dict[str, Any]:
    """Of one whose calls took so long, where `limit` is the most that is looked at."""
    return {
        "status": "pruned", "times": list(times), "median": median(times),
        "error": f"slower than {limit:.3g} s",
    }  # fmt: skip

