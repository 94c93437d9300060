"""Visits: the blocks of calls of a batch of candidates, spread over time.

Blocks in a row agree with one another and are off together, because what slows a machine down
lasts longer than they do. So a candidate is timed in short visits, in rounds over the batch, each
round in another order. Who is certainly slower than the best is visited no more, and visits that
something else disturbed are made again, up to a budget.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.noise.spread import USUAL, centre, error, pooled_spread

BEATEN = 3.0
"""Standard errors of a difference beyond which one candidate is certainly slower than another."""

SLOWED = 1.15
"""How many times its usual time the canary may take before a visit counts as disturbed."""

WAITED, WAKING = 0.1, 1e-4
"""What threads may wait for a processor: a share of the block, and seconds besides, since waking up
is waiting too."""

SWITCHES_PER_SECOND = 100
"""Involuntary context switches of a quiet machine; one that shares its processors has more."""

PAUSE, PAUSES = 0.02, 0.3
"""Seconds of the first pause, and of all pauses of a batch."""

FAR = 1.5
"""How many times slower than the best a candidate has to be to get one visit only."""


@dataclass(frozen=True)
class Visit:
    """One block of calls, and what went on meanwhile.

    seconds   per call
    at        when it ended, seconds since its batch was begun
    lasted    seconds of the block
    canary    time of a fixed piece of work around it / its usual time
    switches  involuntary context switches of the process; `faults` page faults that read a disk
    waited    seconds that its threads were ready and had no processor; None where nobody tells
    """

    seconds: float
    at: float = 0.0
    lasted: float = 0.0
    canary: float = 1.0
    switches: int = 0
    faults: int = 0
    waited: float | None = None

    @property
    def disturbed(self) -> str:
        """What disturbed it, in words; "" where nothing did."""
        if self.faults:
            return f"{self.faults} page faults"
        if self.waited is not None:
            if self.waited > WAITED * self.lasted + WAKING:
                return f"threads waited {self.waited * 1e3:.1f} ms for a processor"
        elif self.switches > 1 + SWITCHES_PER_SECOND * self.lasted:
            return f"{self.switches} context switches"
        if self.canary > SLOWED:
            return f"the canary took {self.canary:.2f} times as long as usual"
        return ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Visit:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


def counting(made: Sequence[Visit]) -> list[Visit]:
    """The visits that count: those that nothing disturbed, or all where there are none."""
    return [v for v in made if not v.disturbed] or list(made)


class Visits:
    """Who of a batch is visited next, by what the visits so far have shown.

    count      candidates
    rounds     visits of each, at most, disturbed ones apart
    incumbent  seconds of the best of earlier batches; None where there is none
    limit_s    seconds of visits after which a candidate gets no further one
    pause      seconds to wait before the next round, which while all are disturbed is better later
    """

    def __init__(
        self,
        count: int,
        rounds: int,
        rng: random.Random,
        incumbent: float | None = None,
        limit_s: float = math.inf,
    ) -> None:
        self.rounds = rounds
        self.made: list[list[Visit]] = [[] for _ in range(count)]
        self._rng = rng
        self._incumbent = incumbent
        self._limit = limit_s
        self._open = set(range(count))
        self._again = count * rounds // 2
        self._begun = False
        self.pause = self._paused = 0.0
        self._last: list[Visit] = []

    def next(self) -> list[int]:
        """The positions of the next round, in its order; none where all is known.

        The first round has the order of the batch, which is that of what is expected.
        """
        if not self._begun:
            self._begun = True
            return sorted(self._open)
        self._close()
        self._wait()
        order = sorted(self._open)
        self._rng.shuffle(order)
        return order

    def add(self, at: int, visit: Visit) -> None:
        self.made[at].append(visit)
        self._last.append(visit)

    def leave(self, at: int) -> None:
        """No further visits: the candidate failed."""
        self._open.discard(at)

    def is_open(self, at: int) -> bool:
        return at in self._open

    def counting(self, at: int) -> list[Visit]:
        """The visits that count, in the order made, and no more than the rounds."""
        return counting(self.made[at])[: self.rounds]

    def best(self) -> float | None:
        """Seconds of the fastest, of earlier batches or of this one; None before there is one."""
        own = [math.exp(self._centre(at)) for at, made in enumerate(self.made) if made]
        known = [*own, *([] if self._incumbent is None else [self._incumbent])]
        return min(known, default=None)

    def _close(self) -> None:
        """Take out who needs no further visit."""
        spread = pooled_spread([[v.seconds for v in made] for made in self.made])
        for at in sorted(self._open):
            made = self.made[at]
            if sum(v.lasted for v in made) >= self._limit or self._is_beaten(at, spread):
                self._open.discard(at)
            elif len(made) >= self.rounds:
                quiet = sum(not v.disturbed for v in made)
                if self._again <= 0 or quiet >= self.rounds:
                    self._open.discard(at)
                self._again -= 1

    def _wait(self) -> None:
        """Choose the pause: longer each time that a round was disturbed as a whole."""
        sick = bool(self._last) and all(v.disturbed for v in self._last)
        self.pause = min(max(2 * self.pause, PAUSE), PAUSES - self._paused) if sick else 0.0
        self._paused += self.pause
        self._last = []

    def _is_beaten(self, at: int, spread: float) -> bool:
        """Whether it is certainly slower than the best; disturbed visits show nothing.

        What nobody noticed makes a visit longer and never shorter: one visit condemns only who is
        far behind, and of two the shorter one counts.
        """
        quiet = [v.seconds for v in self.made[at] if not v.disturbed]
        if not quiet:
            return False
        own = centre(quiet) if len(quiet) > 2 else math.log(min(quiet))
        least = math.log(FAR) if len(quiet) == 1 else 0.0
        return any(
            own - middle > max(BEATEN * math.hypot(error(len(quiet), spread), around), least)
            for middle, around in self._others(at, spread)
        )

    def _others(self, at: int, spread: float) -> list[tuple[float, float]]:
        """The centres of the others, and of the incumbent, with their standard errors."""
        others = [n for n, made in enumerate(self.made) if made and n != at]
        found = [(self._centre(n), error(len(self.counting(n)), spread)) for n in others]
        if self._incumbent is not None:
            found.append((math.log(self._incumbent), max(spread, USUAL)))
        return found

    def _centre(self, at: int) -> float:
        return centre([v.seconds for v in self.counting(at)])
