"""What the database knows of other sizes of a program, as candidates to begin a search with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from autotune.database.ranking import kind_key, outcome
from autotune.database.records import Record
from autotune.search.transfer import adapted
from autotune.space import Candidate
from autotune.tuning.replay import candidate_of

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH = 3, 2
"""Other sizes, machines or conditions that are asked, the nearest ones, and records of each."""


def hints(session: Session, without: Collection[str] = ()) -> list[Candidate]:
    """The best candidates of the nearest records, as far as this space has them, nearest first.

    What was no better than the default there is none: the default of this space is tried anyway.
    Those of programs with the keys of `without` do not count.
    """
    near = session.database.nearest(
        session.workload, session.target, session.machine, session.conditions,
        limit=(PLACES + len(without)) * EACH, each=EACH,
    )  # fmt: skip
    kept = [n.record for n in near if n.record.workload.key not in without]
    better = _better_than_default(kept[: PLACES * EACH])
    known = [c for record in better if (c := candidate_of(record)) is not None]
    found = [adapted(session.space, candidate) for candidate in known]
    return list(dict.fromkeys(candidate for candidate in found if candidate is not None))


def _better_than_default(records: Sequence[Record]) -> list[Record]:
    """Those that rank before the default of their place, of records best first."""
    found: list[Record] = []
    settled: set[tuple[str, ...]] = set()
    for record in records:
        *place, _ = kind_key(record)  # whatever they do to results
        told = outcome(record)
        if told is not None and told.default:
            settled.add(tuple(place))
        if tuple(place) not in settled:
            found.append(record)
    return found
