"""The space of a recording: the recorded candidates, and nothing else.

What a search asks of a space (samples, neighbours, children of two parents) is answered among the
recorded ones alone. No candidate ever stands for another one that was not recorded: its time would
be that of another program. So strategies rank and choose among what is there, as kernel tuners do
that replay exhaustive measurements, and a time that they are told is the time of what they chose.
A recording has to be dense where searches go: see `autotune.simulate.recorder`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np

from autotune.choices import Categorical
from autotune.simulate.places import Places
from autotune.simulate.recording import Recording
from autotune.space import Candidate, Decisions, Sketch, Space
from schedule import Refusal, Schedule

FEW = 8
"""Neighbours that a candidate has at least, as far as its sketch has so many."""

NEAR = 16
"""The nearest candidates, of which a mutation is one."""

WIDER = 64
"""Those of which it is one now and then."""


class RecordedSpace(Space):
    """The space of a recording. `build` gives the `Recorded` in place of a schedule; see `row_of`.

    Raises TensorIRError for a recording without candidates.
    """

    def __init__(self, recording: Recording) -> None:
        self._places: dict[str, Places] = {}
        for entry in recording.entries:
            name = entry.candidate.sketch
            self._places.setdefault(name, Places(len(recording.choices[name])))
            self._places[name].add(entry.candidate.values)
        super().__init__([_drawn(recording, name, p) for name, p in self._places.items()])

    def mutate(self, candidate: Candidate, rng: random.Random) -> Candidate:
        """One of the nearest candidates, nearer ones rather; now and then one of further away."""
        near = self._near(candidate, NEAR if rng.random() < 0.75 else WIDER)
        if not near:
            return self.sample(rng)
        return rng.choices(near, [1 / (rank + 4) for rank in range(len(near))])[0]

    def crossover(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        """A candidate each of whose values one of the parents has; else a mutation of `a`."""
        children = []
        if a.sketch == b.sketch:
            found = self._places[a.sketch].between(a.values, b.values)
            children = [c for values in found if (c := Candidate(a.sketch, values)) not in (a, b)]
        return rng.choice(children) if children else self.mutate(a, rng)

    def neighbors(self, candidate: Candidate) -> list[Candidate]:
        """All that differ in one choice, and the nearest others where these are few."""
        near = self._places[candidate.sketch].within_one(candidate.values)
        return self._near(candidate, max(near, FEW))

    def _near(self, candidate: Candidate, count: int) -> list[Candidate]:
        self._sketch(candidate)
        found = self._places[candidate.sketch].nearest(candidate.values, count)
        return [Candidate(candidate.sketch, values) for values in found]


@lru_cache(maxsize=16)
def space_of(recording: Recording) -> RecordedSpace:
    """The space of a recording, made once: who is near whom is asked in every search of it."""
    return RecordedSpace(recording)


def row_of(schedule: Any) -> np.ndarray:
    """The features of what `RecordedSpace.build` gave: the `extract` of a simulated search."""
    row: np.ndarray = schedule.row
    return row


@dataclass(frozen=True, eq=False)
class _Drawn(Sketch):
    """A sketch whose samples are the recorded candidates."""

    places: Places = field(kw_only=True)
    told: Mapping[Candidate, float] = field(kw_only=True)

    def cycles(self, rows: Sequence[Sequence[Any]]) -> np.ndarray | None:
        if not self.told:
            return None
        found = [self.told.get(Candidate(self.name, tuple(row))) for row in rows]
        return None if None in found else np.array(found, dtype=np.float64)

    def size(self) -> int:
        return len(self.places.known)

    def draw(self, rng: random.Random) -> tuple[Any, ...]:
        return rng.choice(self.places.known)

    def at(self, position: float) -> tuple[Any, ...]:
        return self.places.grid[int(position * len(self.places.grid))]


def _drawn(recording: Recording, name: str, places: Places) -> _Drawn:
    entries = {e.candidate.values: e for e in recording.entries if e.candidate.sketch == name}

    def build(decisions: Decisions) -> Schedule:
        found = entries[tuple(decisions.values())]
        if found.row is None:
            raise Refusal(found.error)
        return cast("Schedule", found)

    choices = tuple(map(Categorical, recording.choices[name], places.options))
    return _Drawn(name, choices, build, lambda d: tuple(d.values()) in entries,
                  places=places, told=recording.cycles)  # fmt: skip
