"""What the database knows of other sizes of a program, as candidates to begin a search with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from autotune.database.ranking import kind_key, outcome
from autotune.database.records import Record
from autotune.search.transfer import adapted
from autotune.space import Candidate, Space
from autotune.tuning.replay import candidate_of

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH, MOST = 3, 4, 6
"""Other sizes, machines or conditions that are asked, the nearest ones; hints of each, and of all.

On recorded times, where a neighbour's differ by 20 % from candidate to candidate, four leave 8.4 %
between winners and the best in the mean of 32 trials, two 9.7, one 11.8, and none 15.3. Where its
times say nothing they cost nothing: hardly anything is then as fast there as its best."""


def hints(session: Session, without: Collection[str] = ()) -> list[Candidate]:
    """The best candidates of the nearest records, as far as this space has them: the best of each
    place, those of the nearest first, then the second ones, and so on.

    What a race found to be slower than the default there is none: the default of this space is
    tried anyway. Those of programs with the keys of `without` do not count. The session notes how
    many cannot be read, since earlier versions did not store the names of choices.
    """
    near = session.database.nearest(
        session.workload, session.target, session.machine, session.conditions,
        limit=(PLACES + len(without)) * 2 * EACH, each=2 * EACH,
    )  # fmt: skip
    kept = [n.record for n in near if n.record.workload.key not in without]
    best = [record for _, record in sorted(_promising(kept), key=itemgetter(0))[:MOST]]
    constants = session.workload.constants
    known = [(c, record.choices) for record in best if (c := candidate_of(record)) is not None]
    unnamed = sum(not choices and _has_others(session.space, c) for c, choices in known)
    if unnamed:
        session.note(
            f"of other sizes, {unnamed} of the best records name no choices, and this version has"
            " others: they begin no search; those that are tuned anew do"
        )
    found = [adapted(session.space, c, choices, constants) for c, choices in known]
    return list(dict.fromkeys(candidate for candidate in found if candidate is not None))


def _has_others(space: Space, candidate: Candidate) -> bool:
    """Whether the sketch of a candidate has got choices since, or lost some."""
    sketch = space.sketches.get(candidate.sketch)
    return sketch is not None and len(sketch.choices) != len(candidate.values)


def _promising(records: Sequence[Record]) -> Iterator[tuple[int, Record]]:
    """Those that may be faster than the default of their place, EACH of one place at most, and how
    many of it are better, of records best first. Who took no part in its race was slower for
    certain."""
    counts: Counter[tuple[str, ...]] = Counter()
    raced: set[tuple[str, ...]] = set()
    for record in records:
        *kind, _ = kind_key(record)  # whatever they do to results
        place, told = tuple(kind), outcome(record)
        if told is not None:
            raced.add(place)
        default = record.trial == 0 if told is None else told.default
        slower = place in raced if told is None else told.gain.high <= 0
        if not default and not slower and counts[place] < EACH:
            yield counts[place], record
            counts[place] += 1
