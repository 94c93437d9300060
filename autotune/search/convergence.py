"""Whether a search has converged: what the next trials are expected to gain, by what the last did.

A search gains something in every stretch of its trials, ever less. So the gain of their last half
bounds what as many again will bring; where it is below the noise of a single time, going on buys
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

LEAST, MOST = 24, 48
"""Trials over which a gain is looked at. Over more, luck of single times looks like gain."""

NOTHING = 0.01
"""A share of the best time that is none: the noise of a visit is larger."""


def recent_gain(times: Iterable[float | None]) -> float | None:
    """The share of the best time that the last half of the trials saved, LEAST to MOST of them.

    `times` are seconds in the order of the trials, None for a failure. None where there are too few
    trials to tell, or none had run before.
    """
    known = list(times)
    last = min(max(len(known) // 2, LEAST), MOST)
    before = [s for s in known[: len(known) - last] if s is not None] if last < len(known) else []
    if not before:
        return None
    after = [s for s in known if s is not None]
    return 1 - min(after) / min(before)


def has_converged(times: Iterable[float | None]) -> bool:
    """Whether nothing is expected to be gained by going on."""
    gain = recent_gain(times)
    return gain is not None and gain < NOTHING
