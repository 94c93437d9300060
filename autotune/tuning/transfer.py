"""What the database knows of other sizes of a program, and of other machines: candidates to begin a
search with. They are tried here as all others are; no time of elsewhere counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING

from autotune.calibration.device import device_for
from autotune.database.nearest import Near
from autotune.database.ranking import is_undecided, kind_key, outcome
from autotune.database.records import Record, Workload
from autotune.errors import DatabaseError
from autotune.rules import make_space
from autotune.search.state import Hint
from autotune.search.transfer import adapted
from autotune.space import Candidate, Space
from autotune.tuning.batches import BATCH
from autotune.tuning.replay import candidate_of
from tensorir import TensorIRError, parse

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH, MOST = 3, 4, 6
"""Other sizes, machines or conditions that are asked, the nearest ones; hints of each, and of all.

On recorded times, where a neighbour's differ by 20 % from candidate to candidate, four leave 8.4 %
between winners and the best in the mean of 32 trials, two 9.7, one 11.8, and none 15.3. Where its
times say nothing they cost nothing: hardly anything is then as fast there as its best."""

OTHERWISE = 2
"""Hints beside these of each other sketch that has a default here: which sketch is the best changes
with sizes, and what is the best of one hardly does."""

RECORDS = 64
"""Records of a place that are looked at, the best ones."""


def hints(
    session: Session, without: Collection[str] = (), shipped: bool = False
) -> dict[Candidate, Hint]:
    """The best candidates of the nearest records, as far as this space has them, and what is known
    of them: the best of each place, those of the nearest first, then the second ones, and so on; at
    last the best of sketches that were not the best there.

    What a race found to be slower than the default there is none: the default of this space is
    tried anyway. Those of programs with the keys of `without` do not count, and those that ship
    with the project do where `shipped` says so. The session notes how many cannot be read, since
    earlier versions did not store the names of choices.
    """
    places = _places(session, without, shipped)
    best = sorted((each for place in places for each in place.promising()), key=itemgetter(0))
    chosen = [(near, place) for _, near, place in best[:MOST]]
    chosen += [(near, place) for place in places for near in place.otherwise()]
    known = [(c, *each) for each in chosen if (c := candidate_of(each[0].record)) is not None]
    unnamed = sum(not n.record.choices and _has_others(session.space, c) for c, n, _ in known)
    if unnamed:
        session.note(
            f"of other sizes, {unnamed} of the best records name no choices, and this version has"
            " others: they begin no search; those that are tuned anew do"
        )
    constants = session.workload.constants
    space_there = lru_cache(partial(_space_of, session))
    found: dict[Candidate, Hint] = {}
    for candidate, near, place in known:
        there = partial(space_there, near.record.workload if _is_raced(near.record) else None)
        here = adapted(session.space, candidate, near.record.choices, constants, there)
        if here is not None:
            found.setdefault(here, place.hint(near))
    return found


@dataclass(frozen=True)
class _Place:
    """What is known of one program, machine and conditions.

    found  its believed records, best first
    begun  the first trial of each sketch, of the first batch there, which begins with the defaults
    usual  what needs no tuning here, the first of each sketch
    """

    found: Sequence[Near]
    begun: Mapping[str, Record]
    usual: Mapping[str, Candidate]

    @property
    def has_hints(self) -> bool:
        return any(True for _ in chain(self.promising(), self.otherwise()))

    def promising(self) -> Iterator[tuple[int, Near, _Place]]:
        """Those that may be faster than the default there, EACH at most, and how many of the place
        are better. Who took no part in its race was slower for certain, and this space has defaults
        of its own."""
        raced, count = any(outcome(near.record) is not None for near in self.found), 0
        usual = [record.code for sketch, record in self.begun.items() if sketch in self.usual]
        for near in self.found:
            race = outcome(near.record)
            default = near.record.code in usual if race is None else race.default
            slower = raced if race is None else race.gain.high <= 0
            if not default and not slower and count < EACH:
                yield count, near, self
                count += 1

    def otherwise(self) -> Iterator[Near]:
        """The fastest of each sketch but the default's that were faster than what it began with."""
        for sketch in list(self.usual)[1:]:
            first = self.begun.get(sketch)
            some = [near for near in self.found if near.record.sketch == sketch]
            some.sort(key=lambda near: near.record.median or inf)
            if first is not None:
                yield from [n for n in some if _ratio(n.record, first) < 1][:OTHERWISE]

    def hint(self, near: Near) -> Hint:
        """How it compares with what needs no tuning: the default of its sketch, if that has one
        here and was tried there, or else of all."""
        record, sketch = near.record, near.record.sketch
        usual, first = self.usual.get(sketch), self.begun.get(sketch)
        if usual is not None and first is not None and sketch != next(iter(self.usual)):
            return Hint(str(near), _ratio(record, first), usual)
        race = outcome(record)
        if race is not None and not race.busy:
            return Hint(str(near), 1 / (1 + race.gain.estimate))
        default = next((r for r in self.begun.values() if r.trial == 0), None)
        return Hint(str(near), 1.0 if default is None else _ratio(record, default))


def _places(session: Session, without: Collection[str], shipped: bool) -> list[_Place]:
    """The nearest ones whose records have something to try."""
    nearest = partial(
        session.database.nearest, session.workload, session.target, session.machine,
        session.conditions, limit=(PLACES + len(without)) * RECORDS, each=RECORDS,
    )  # fmt: skip
    try:
        near = nearest(shipped=shipped)
    except DatabaseError:  # of a damaged file that ships, which `tune` tells of
        near = nearest()
    found: dict[tuple[str, ...], list[Near]] = {}
    for each in near:
        if each.record.workload.key not in without:
            *kind, _ = kind_key(each.record)  # whatever they do to results
            found.setdefault(tuple(kind), []).append(each)
    usual: dict[str, Candidate] = {}
    for default in session.state.defaults:
        usual.setdefault(default.sketch, default)
    every = (_Place(some, _begun(session, some[0].record), usual) for some in found.values())
    return list(islice((each for each in every if each.has_hints), PLACES))


def _begun(session: Session, record: Record) -> dict[str, Record]:
    """The first trial of each sketch in the first batch of the search that a record is of."""
    found = session.database.records(
        record.workload, record.target, record.machine_key, "ok", conditions=record.conditions
    )
    first = [r for r in found if r.is_trial and r.trial < BATCH]
    return {r.sketch: r for r in sorted(first, key=lambda r: -r.trial)}


def _ratio(record: Record, other: Record) -> float:
    return (record.median or inf) / (other.median or inf)


def told(session: Session) -> str:
    """Where this search's hints are from, and what they were worth; "" where there were none."""
    state = session.state
    if not state.hints:
        return ""
    counts = Counter(hint.place for hint in state.hints.values())
    places = ", ".join(f"{n} of {place}" for place, n in counts.items())
    tried = [state.measured[c] for c in state.hints if c in state.measured]
    text = f"{places}: {len(tried)} of {len(state.hints)} tried"
    best, ran = state.best_seconds(), [seconds for seconds in tried if seconds is not None]
    if best and ran:
        text += f", the best of them took {min(ran) / best:.2f} x the fastest trial"
    return text


def _is_raced(record: Record) -> bool:
    """Whether a race came to a verdict on it: else it may be among the best by luck alone."""
    return outcome(record) is not None and not is_undecided(record)


def _space_of(session: Session, workload: Workload | None) -> Space | None:
    """The space of another workload for this device; None where this version can make none."""
    if workload is None:
        return None
    device = device_for(session.target, session.costs)
    try:
        func = parse(workload.text)
        return make_space(func, device, session.numerics, constants=workload.constants)
    except TensorIRError:
        return None


def _has_others(space: Space, candidate: Candidate) -> bool:
    """Whether the sketch of a candidate has got choices since, or lost some."""
    sketch = space.sketches.get(candidate.sketch)
    return sketch is not None and len(sketch.choices) != len(candidate.values)
