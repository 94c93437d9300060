"""What a search knows: the trials so far, the model, and the features of what was built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from autotune.search.formulas import Formulas
from autotune.space import Candidate, Space
from schedule import Refusal

if TYPE_CHECKING:
    from autotune.cost_model import CostModel
    from schedule import Schedule

ENOUGH = 4
"""Trials of a sketch before it may be given up."""

HOPELESS = 2.0
"""A sketch whose best trial is this many times slower than the best of all is given up."""

MANY = 2
"""Candidates from which on it pays to have other processes build them, each by itself: few of a
generation are left where formulas have said which are worth it."""


class Scored(NamedTuple):
    """What building a candidate tells: the features of its schedule, or None and why it is refused;
    and its program, a text that other candidates have too if they make the same one."""

    row: np.ndarray | None
    refusal: str = ""
    program: str = ""


class Hint(NamedTuple):
    """What is known of a candidate from elsewhere.

    place  where it is from
    ratio  the time that it took there over that of `usual`
    usual  what needs no tuning and is scheduled in the same way; None for the first of the defaults
    """

    place: str = ""
    ratio: float = 1.0
    usual: Candidate | None = None


Ahead = Callable[[Sequence[Candidate]], "Sequence[Scored] | None"]


@dataclass
class SearchState:
    """Everything that proposals depend on besides the space and the random generator.

    model     predicts seconds from features
    extract   features of a built schedule; where it raises Refusal, as for a schedule that is not
              wanted, the candidate counts as refused
    measured  seconds of each trial, None for a failure, in the order of the trials
    defaults  candidates that the first batch contains whatever the model says
    rejected  candidates that must not be proposed
    refusals  why schedules could not be built, with counts
    builds    schedules built so far
    identify  the program of a built schedule; None takes all for different ones
    foreseen  seconds of trials that the model predicted before they were measured
    hints     candidates that are expected to be good, as by what was best for other sizes, the best
              first, and what is known of them
    ahead     scores many candidates at once, in other processes; None, or an answer None, leaves
              them to this one
    """

    model: CostModel
    extract: Callable[[Any], np.ndarray]
    measured: dict[Candidate, float | None] = field(default_factory=dict)
    defaults: Sequence[Candidate] = ()
    rejected: set[Candidate] = field(default_factory=set)
    refusals: Counter[str] = field(default_factory=Counter)
    builds: int = 0
    ahead: Ahead | None = None
    identify: Callable[[Any], str] | None = None
    foreseen: dict[Candidate, float] = field(default_factory=dict)
    hints: Mapping[Candidate, Hint] = field(default_factory=dict)
    _features: dict[Candidate, np.ndarray | None] = field(default_factory=dict, repr=False)
    _programs: dict[Candidate, str] = field(default_factory=dict, repr=False)
    formulas: Formulas = field(default_factory=Formulas, repr=False)
    _tried: set[str] = field(default_factory=set, repr=False)
    _fitted: int = 0

    def add(
        self,
        candidate: Candidate,
        seconds: float | None,
        program: str = "",
        predicted: float | None = None,
    ) -> None:
        """Add a trial; None for one that failed. A repeated trial replaces the earlier one.

        program    where it is known, it is not proposed again, by whatever candidate
        predicted  seconds that the model predicted before it was measured, where it did
        """
        self.measured[candidate] = seconds
        self._tried |= {program, self.program(candidate)} - {""}
        if predicted is not None:
            self.foreseen[candidate] = predicted
        self._fitted = 0

    def reject(self, candidate: Candidate, program: str = "") -> None:
        """Never propose this candidate or its program; it is no trial, and the model does not learn
        from it."""
        self.rejected.add(candidate)
        self._tried |= {program, self.program(candidate)} - {""}

    def spent(self, candidate: Candidate) -> bool:
        """Whether the candidate itself was measured or rejected."""
        return candidate in self.measured or candidate in self.rejected

    def program(self, candidate: Candidate) -> str:
        """The program of a candidate that was built; "" where it is not known."""
        return self._programs.get(candidate, "")

    def is_new(self, candidate: Candidate, chosen: Collection[str] = ()) -> bool:
        """Whether the program of a candidate that was built is none of `chosen`, and none that was
        measured or rejected as another candidate."""
        program = self.program(candidate)
        return not program or (program not in self._tried and program not in chosen)

    def features(self, space: Space, candidate: Candidate) -> np.ndarray | None:
        """The candidate's features, from memory if it was built before; None if it is refused."""
        if candidate not in self._features:
            found = score(space.build, self.extract, candidate, self.identify)
            self._note(space, candidate, found)
        return self._features[candidate]

    def prepare(self, space: Space, candidates: Sequence[Candidate]) -> None:
        """Find the features of those not known yet at once, where there are enough of them."""
        new = [c for c in dict.fromkeys(candidates) if c not in self._features]
        if self.ahead is None or len(new) < MANY:
            return
        new.sort(key=lambda c: c.key)  # one process gets neighbours, which begin with equal steps
        scored = self.ahead(new)
        if scored is None:
            self.ahead = None  # it would fail again
            return
        for candidate, found in zip(new, scored, strict=True):
            self._note(space, candidate, found)

    def predicted(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """Seconds that are expected of each now; None for one that was not built."""
        known = [c for c in candidates if self._features.get(c) is not None]
        found = dict(zip(known, self.expected(known)))
        return [float(found[c]) if c in found else None for c in candidates]

    def expected(self, candidates: Sequence[Candidate], learned: float = 1.0) -> np.ndarray:
        """Seconds that model and formulas expect of candidates that were built, [candidates];
        `learned` is the share of what the model learned that counts."""
        if not candidates:
            return np.zeros(0)
        rows = self._rows(candidates)
        corrections = self.formulas.corrections(candidates, self.model.predict(rows, 0.0))
        return self.model.predict(rows, learned) * corrections

    def _rows(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return np.stack([row for c in candidates if (row := self._features[c]) is not None])

    def know(self, space: Space) -> None:
        """Build the trials of this space that were not built here, as those of earlier runs: then
        their features and programs are known."""
        known = [c for c in self.measured if c.sketch in space.sketches]
        self.prepare(space, known)
        for candidate in known:
            self.features(space, candidate)

    def fit(self, space: Space) -> None:
        """Fit the model to the trials, unless none were added since the last time."""
        if self._fitted == len(self.measured):
            return
        self._fitted = len(self.measured)
        self.know(space)
        known = [c for c in self.measured if self._features.get(c) is not None]
        if known:
            rows = self._rows(known)
            self.model.fit(rows[:1], [None])  # as where a search goes on: the same to the last bit
            self.formulas.compare(known, drafted := self.model.predict(rows, 0.0))
            by = self.formulas.corrections(known, drafted)
            times = map(self.measured.get, known)
            self.model.fit(rows, [s and s / each for s, each in zip(times, by.tolist())])
            self.formulas.compare(known, self.model.predict(rows, 0.0))  # the draft is scaled now

    def best_seconds(self) -> float | None:
        """The time of the fastest trial; None before there is one."""
        return min((s for s in self.measured.values() if s is not None), default=None)

    def ranked(self) -> list[Candidate]:
        """The successful trials, fastest first."""
        times = {c: s for c, s in self.measured.items() if s is not None}
        return sorted(times, key=lambda c: (times[c], c.key))

    def alive(self, space: Space) -> list[str]:
        """The sketches that are still worth trials, in the order of the space."""
        ranked = self.ranked()
        limit = HOPELESS * (self.measured[ranked[0]] or 0.0) if ranked else 0.0
        tried: Counter[str] = Counter(c.sketch for c in self.measured)
        good = {c.sketch for c in ranked if (self.measured[c] or 0.0) <= limit}
        kept = [name for name in space.sketches if tried[name] < ENOUGH or name in good]
        return kept or list(space.sketches)

    def _note(self, space: Space, candidate: Candidate, found: Scored) -> None:
        self.builds += 1
        self._features[candidate] = found.row
        if found.row is None:
            self.refusals[found.refusal] += 1
        else:
            self.formulas.note(space, candidate)
        if found.program:
            self._programs[candidate] = found.program
            if self.spent(candidate):
                self._tried.add(found.program)


def score(
    build: Callable[[Candidate], Schedule],
    extract: Callable[[Any], np.ndarray],
    candidate: Candidate,
    identify: Callable[[Any], str] | None = None,
) -> Scored:
    """The features of a candidate and its program, or why its schedule is refused. Other errors
    than that are mistakes, of rules or of the project, and end a search."""
    try:
        built = build(candidate)
        row = np.asarray(extract(built), dtype=np.float32)
    except Refusal as error:
        return Scored(None, error.headline)
    return Scored(row, program=identify(built) if identify else "")
