"""A race in rounds: who is certainly slower leaves, and the default loses only for certain.

All that are still in it are timed once in each round, in a random order, so that what slows the
machine down hits all alike: what counts are differences within rounds. They are looked at a few
times, and each look and each pair gets its part of the error that is allowed for all together, so
that the confidence holds for the whole race. At each look at most half of them stay, the better
ones: twice the rounds tell more about these than as many about copies of one another. What was set
aside without being certainly slower counts in what the default may have missed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.noise.gain import Gain, Outcome
from autotune.noise.signed_rank import Interval, interval

LATER = (14, 20, 28, 40)
"""Rounds after which the race is looked at again; it is first after as few as can decide anything,
which are the more the more take part."""

EARLY, BEHIND = 4, 4.0
"""Rounds after which those are left out whose times are so many standard errors behind, by the
spread of all differences so far. Nobody wins by that, so it takes nothing of the confidence."""

CONFIDENCE = 0.95
ALIKE = 0.02
"""Differences that are not worth further rounds, as a share: the race is over where nobody left in
it can be so much faster than who wins so far, with the confidence of the whole race."""

LEADS, WITHIN = 0.5, 0.05
"""A lead smaller than ALIKE, and than this share of what its interval will be to each side at the
last look, is not looked at until then: the default would be kept. It is where nobody left can be
faster by more than WITHIN."""

LIMIT_S = 20.0
"""Seconds after which there are no further rounds: slow kernels have less noise. Where the rounds
before the first look would take longer, there is one look, after as few as can decide anything."""


def first_look(finalists: int, looks: int = 1 + len(LATER), confidence: float = CONFIDENCE) -> int:
    """The fewest rounds that can decide anything between so many at one of so many looks: what is
    slower in all of them is so by chance in one of two to their number."""
    return math.ceil(math.log2(2 * looks * max(finalists - 1, 1) / (1 - confidence)))


class Race:
    """The state of a race of `finalists`; the one at `default` wins unless another is faster.

    confidence  of the verdict; `round_s` the seconds that a round is expected to take
    running  positions of those that are still timed; the default one is to the end
    times    seconds, float64 [rounds, finalists]; nan for who was out
    busy     rounds that other programs disturbed, bool [rounds]: they decide nothing, since a load
             slows some kernels down more than others
    """

    def __init__(
        self, finalists: int, default: int, confidence: float = CONFIDENCE, round_s: float = 0.0
    ) -> None:
        self.default = default
        self.confidence = confidence
        self.running = list(range(finalists))
        self.times = np.empty((0, finalists))
        self.busy = np.empty(0, dtype=bool)
        self._over = False
        self._intervals: dict[tuple[int, int], Interval] = {}
        self._aside: list[int] = []
        self._pairs = max(finalists - 1, 1)
        first = first_look(finalists, confidence=confidence)
        self._looks = (first, *(look for look in LATER if look > first))
        if first * round_s > LIMIT_S:
            self._looks = (first_look(finalists, 1, confidence),)
        self._early = EARLY if 1 < finalists and EARLY < self._looks[0] else 0

    @property
    def wanted(self) -> int:
        """How many rounds to time next; 0 when the race is over."""
        if self._over or self._is_hopeless or np.nansum(self.times) > LIMIT_S:
            return 0
        done = len(self.times)
        return next((look - done for look in (self._early, *self._looks) if look > done), 0)

    def add(self, times: np.ndarray, busy: Sequence[bool] = ()) -> None:
        """The next rounds: float64 [`wanted`, number of those running], in their order."""
        block = np.full((len(times), self.times.shape[1]), np.nan)
        block[:, self.running] = times
        self.times = np.concatenate([self.times, block])
        self.busy = np.concatenate([self.busy, np.array(busy or [False] * len(times), dtype=bool)])
        self._intervals.clear()
        if len(self.times) < self._looks[0]:
            self._leave_behind()
        else:
            self._look()

    def outcomes(self) -> list[Outcome]:
        """What was found about each finalist."""
        gains = [Gain.of(self._faster(c), self.confidence) for c in range(self.times.shape[1])]
        winner = self._winner()
        possible = [*self._challengers(), *self._aside]
        missed = max([gains[c].high for c in possible], default=0.0)
        return [
            Outcome(
                at == winner,
                at == self.default,
                gain,
                max(missed, 0.0) if at == winner == self.default else 0.0,
                float(np.mean(self.busy)) if self.is_undecided else 0.0,
            )
            for at, gain in enumerate(gains)
        ]

    @property
    def is_undecided(self) -> bool:
        """Whether the rounds in which the machine was quiet are too few to tell anything."""
        return not self._over and int(np.sum(~self.busy)) < min(self._looks[0], len(self.busy))

    @property
    def _is_hopeless(self) -> bool:
        """Whether of all rounds too few would be quiet, at the share of those so far."""
        first, last = self._looks[0], self._looks[-1]
        return first <= len(self.busy) and int(np.sum(~self.busy)) * last < first * len(self.busy)

    def _challengers(self) -> list[int]:
        return [c for c in self.running if c != self.default]

    def _winner(self) -> int:
        certain = [c for c in self._challengers() if self._faster(c).low > 0]
        return max(certain, key=lambda c: (self._faster(c).estimate, -c), default=self.default)

    def _faster(self, one: int) -> Interval:
        """log(the default's time / the time of `one`)."""
        return self._difference(self.default, one)

    def _difference(self, a: int, b: int) -> Interval:
        """log(the time of `a` / the time of `b`); kept until there are further rounds."""
        if (a, b) not in self._intervals:
            level = 1 - (1 - self.confidence) / (len(self._looks) * self._pairs)
            with np.errstate(divide="ignore", invalid="ignore"):
                quiet = self.times[~self.busy]
                logs = np.log(quiet[:, a]) - np.log(quiet[:, b])
            self._intervals[a, b] = interval(logs, level)
        return self._intervals[a, b]

    def _leave_behind(self) -> None:
        """Take out who is far slower than the fastest; with the last of them the race is over."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.times[~self.busy][:, self.running])
            if len(logs) < EARLY:
                return
            centres, rounds = logs.mean(axis=0), logs.mean(axis=1, keepdims=True)
            rest = logs - centres - rounds + logs.mean()
            spread = math.sqrt(np.sum(rest**2) / ((len(logs) - 1) * (logs.shape[1] - 1)))
            behind = centres - centres.min() > max(ALIKE, BEHIND * spread * (2 / len(logs)) ** 0.5)
        self.running = [c for c, out in zip(self.running, behind) if c == self.default or not out]
        self._over = not self._challengers()

    def _look(self) -> None:
        """Take out who is certainly slower than the fastest, and see whether that was all."""
        leader = max(self.running, key=lambda c: (self._faster(c).estimate, c == self.default, -c))
        behind = {c: self._difference(c, leader) for c in self.running if c != leader}
        out = {c for c, slower in behind.items() if slower.low > 0 and c != self.default}
        self.running = [c for c in self.running if c not in out]
        left = [slower for c, slower in behind.items() if c in self._challengers()]
        gain = self._faster(leader)
        settled = leader == self.default or gain.low > ALIKE or gain.high < ALIKE
        self._over = settled and all(slower.low > -ALIKE for slower in left)
        self._over = self._over or not any(map(self._may_win, self._challengers()))
        if not self._over:
            self._halve()

    def _may_win(self, one: int) -> bool:
        """Whether it is so much faster than the default that further rounds may make it certain."""
        faster = self._faster(one)
        if faster.high > WITHIN:
            return True
        known = len(self.times) / self._looks[-1]
        return faster.estimate >= min(ALIKE, LEADS * known**0.5 * (faster.high - faster.low) / 2)

    def _halve(self) -> None:
        """Set the slower half of the challengers aside, once their intervals say something."""
        ranked = sorted(self._challengers(), key=lambda c: (-self._faster(c).estimate, c))
        for c in ranked[-(-len(ranked) // 2) :]:
            if self._faster(c).high < math.inf:
                self.running.remove(c)
                self._aside.append(c)
