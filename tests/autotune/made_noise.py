"""Times of a machine that is not quiet, made up: what searches and races are tried on.

A machine drifts for seconds, bursts of other programs slow it down, and each block has noise of its
own, which is large for a few. Nothing here looks at a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.noise.visits import Visit


class NoisyMachine:
    """Gives the time of one block after the other, as long as these blocks take.

    own    relative spread of single blocks, which a few are ten times as far off as
    drift  of the machine's speed, relative, over about a second
    load   share of the time that a burst of another program lasts; it slows down by 1.2 to 3
    """

    def __init__(
        self, seed: int, own: float = 0.02, drift: float = 0.08, load: float = 0.3
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.own, self.drift, self.load = own, drift, load
        self.now = 0.0
        self._level = 0.0
        self._until, self._slow = 0.0, 1.0

    def block(self, seconds: float, lasts: float = 0.01) -> float:
        """The time of a call that takes `seconds` on the quiet machine, in a block of `lasts`."""
        self.wait(lasts)
        noise = self.rng.normal(0, self.own)
        if self.rng.random() < 0.03:
            noise = abs(10 * noise)
        return float(seconds * np.exp(self._level + noise) * self._slow)

    def visit(self, seconds: float, lasts: float = 0.01) -> Visit:
        """The same with what a canary tells, which feels drift and load as the kernel does."""
        taken = self.block(seconds, lasts)
        canary = self._slow * float(np.exp(self._level))
        return Visit(taken, at=self.now, lasted=lasts, canary=canary)

    def rounds(self, seconds: Sequence[float], count: int) -> np.ndarray:
        """Blocks of 5 ms of several in turns, in random order: float64 [count, len(seconds)]."""
        times = np.empty((count, len(seconds)))
        for row in times:
            for at in self.rng.permutation(len(seconds)):
                row[at] = self.block(seconds[at], 0.005)
        return times

    def wait(self, lasts: float) -> None:
        """Let time pass."""
        self.now += lasts
        pull = min(lasts / 1.0, 1.0)
        step = self.drift * (2 * pull) ** 0.5
        self._level += -pull * self._level + self.rng.normal(0, step)
        if self.now >= self._until:
            busy = self.rng.random() < self.load
            self._slow = float(self.rng.uniform(1.2, 3.0)) if busy else 1.0
            self._until = self.now + float(self.rng.exponential(0.08))
