"""Candidates that may be good, since one like them was so elsewhere: which are tried, and when.

No time of elsewhere counts here. How a candidate compared with what needs no tuning there is a
guess of how it compares with that here, and hints that were tried here say how far such guesses are
off for others of their sketches.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf, log
from statistics import median

from autotune.search.state import HOPELESS, SearchState
from autotune.space import Candidate

FIRST = 2
"""Hints that are tried before it is known how anything compares here."""

NEAR_BEST = 1.1
"""What is expected to take so many times the best here at most may be the best: guesses are off."""


def next_hints(state: SearchState, among: Iterable[Candidate], slots: int) -> list[Candidate]:
    """Those of `among` that a batch with so many slots tries, half of them at most: a few at first,
    in their order, and then those that are expected to be faster than all that needs no tuning, and
    about as fast as the best here, the fastest first. So a neighbour that is no good here costs
    FIRST trials."""
    half = -(-slots // 2)
    new = [c for c in among if c in state.hints and c not in state.measured]
    if not any(c in state.measured for c in state.hints if c not in state.defaults):
        return new[: min(FIRST, half)]
    times = {c: expected(state, c) for c in new}
    usual = min((s for c in state.defaults if (s := state.measured.get(c))), default=inf)
    most = min(usual, NEAR_BEST * (state.best_seconds() or inf))
    good = [c for c in new if times[c] < most]
    return sorted(good, key=times.__getitem__)[:half]


def expected(state: SearchState, candidate: Candidate) -> float:
    """Seconds of a hint, by what took part here of that with which it was compared, and by how far
    that is off for hints of the same sketch, in the median, since what it was compared with may
    have been timed on a busy machine; inf where nothing ran here."""
    tried = [c for c in state.hints if c.sketch == candidate.sketch and c in state.measured]
    return _guess(state, candidate) * exp(median([0.0, *(log(_off(state, c)) for c in tried)]))


def _off(state: SearchState, candidate: Candidate) -> float:
    """How many times as long as guessed a hint takes that was tried here."""
    seconds, guess = state.measured[candidate], _guess(state, candidate)
    return HOPELESS if seconds is None else 1.0 if guess == inf else seconds / guess


def _guess(state: SearchState, candidate: Candidate) -> float:
    hint = state.hints[candidate]
    for usual in (hint.usual, *state.defaults):
        seconds = state.measured.get(usual) if usual else None
        if seconds is not None:
            return seconds * hint.ratio
    return inf
