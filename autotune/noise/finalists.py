"""Who is in the race: all that cannot be told apart from the best by the times of their trials."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.noise.race import LIMIT_S, first_look
from autotune.noise.spread import centre, error, pooled_spread
from autotune.noise.visits import Visit, counting

APART = 2.5
"""Standard errors of a difference beyond which two times are told apart."""

MOST = 8
"""More would take longer to race than they are worth: the fastest of them are taken."""

FEWEST, FIRST_LOOK_S = 4, 0.6
"""Finalists, unless they are very slow; seconds that the rounds before the first look may take
with more. In races of recorded times whose visits are off by 3.5 % four lose as little as eight,
0.1 % of the best; by 6 % they lose 0.3 instead of 0.2 %, in three fifths of the blocks."""

DRIFT = 0.03
"""What trials of different batches are off together, at least: blocks of one batch do not show
it."""


def finalists(trials: Sequence[Sequence[Visit]], most: int = MOST) -> list[int]:
    """The positions of those of the trials that may be the fastest, best first.

    Where all visits of a trial were disturbed, their times are taken to be as much too long as the
    canary was slow: the race will tell. A canary may be slower than a kernel beside it, so these
    are compared with the best of the others, and take half of the places where others want them.
    """
    if not trials:
        return []
    times = [_times(each) for each in trials]
    spread = max(pooled_spread(times), DRIFT)
    known = [(centre(each), error(len(each), spread), at) for at, each in enumerate(times)]
    doubts = [all(visit.disturbed for visit in each) for each in trials]
    sure = [each for each, doubt in zip(known, doubts) if not doubt]
    best, best_error, _ = min(sure or known)
    near = [
        at
        for middle, own, at in sorted(known, key=lambda each: (each[0], each[2]))
        if middle - best <= APART * (own**2 + best_error**2) ** 0.5
    ]
    doubtful = [at for at in near if doubts[at]]
    left = doubtful[max(most // 2, most - (len(near) - len(doubtful))) :]
    return [at for at in near if at not in left][:most]


def most_finalists(seconds: float) -> int:
    """How many may race with the default where the best takes so many seconds: fewer of slow
    kernels, whose rounds before the first look take FIRST_LOOK_S at most; one alone where even few
    would take longer than a race may."""
    many = [n for n in range(FEWEST + 1, MOST + 1) if n * _look(n, seconds) <= FIRST_LOOK_S]
    few = [n for n in range(2, FEWEST + 1) if (n + 1) * _look(n, seconds) <= LIMIT_S]
    return max([1, *few, *many])


def _look(finalists: int, seconds: float) -> float:
    """Seconds that each takes before the first look, if so many race with the default."""
    return first_look(finalists + 1) * seconds


def _times(made: Sequence[Visit]) -> list[float]:
    return [v.seconds / (max(v.canary, 1.0) if v.disturbed else 1.0) for v in counting(made)]
