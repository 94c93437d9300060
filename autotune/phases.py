"""What the seconds of a search are spent in."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

PHASES = ("proposing", "lowering", "compiling", "timing", "waiting", "race")
"""Choosing candidates; making and lowering their schedules, until there is a source text; the
compiler; checking and timing; pauses, and waits for other tuners; the race at the end."""

PARTS = ("lowering", "compiling")
"""Of what workers do that build."""


class Work:
    """The work of this process and of the compilers that it started, from here on."""

    def __init__(self) -> None:
        self._begun = os.times()

    def spent(self) -> dict[str, float]:
        """Processor seconds of each of PARTS."""
        own, own_system, others, others_system, _ = (
            now - begun for now, begun in zip(os.times(), self._begun)
        )
        return dict(zip(PARTS, (own + own_system, others + others_system)))


class Phases:
    """Wall seconds by phase: while one is inside of another one, only the inner one's clock runs.

    clock  gives the time in seconds
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._since, self._running = clock, 0.0, ""

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """What happens inside is part of the phase."""
        outer = self._switch(phase)
        try:
            yield
        finally:
            self._switch(outer)

    @contextmanager
    def holding(self, lock: AbstractContextManager[object], phase: str) -> Iterator[None]:
        """The same, under a lock; until that is held, it is waiting."""
        with ExitStack() as stack:
            with self("waiting"):
                stack.enter_context(lock)
            with self(phase):
                yield

    def divide(self, phase: str, work: Iterable[Mapping[str, float]]) -> None:
        """What was counted as one phase so far belongs to others, in the proportions of the work
        that was done for them; to the last of PARTS, where none is known of."""
        parts = Counter({PARTS[-1]: 0.0})
        for each in work:
            parts.update(each)
        total, seconds = sum(parts.values()), self.seconds.pop(phase, 0.0)
        for part, done in parts.items():
            self._add(part, seconds * (done / total if total else 1.0))

    def so_far(self) -> dict[str, float]:
        """The seconds until now, of the phase that is running too, to the millisecond."""
        self._switch(self._running)
        return {phase: round(seconds, 3) for phase, seconds in self.seconds.items()}

    def _switch(self, phase: str) -> str:
        now, before = self._clock(), self._running
        if before:
            self._add(before, now - self._since)
        self._running, self._since = phase, now
        return before

    def _add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


def in_words(phases: Mapping[str, float], seconds: float) -> str:
    """ "proposing 31 %, compiling 25 %": shares of all seconds, those of 1 % at least."""
    shares = {phase: phases.get(phase, 0.0) / seconds for phase in PHASES} if seconds else {}
    return ", ".join(f"{phase} {share:.0%}" for phase, share in shares.items() if share >= 0.01)
