"""What the database knows of other sizes of a program, as candidates to begin a search with."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autotune.search.transfer import adapted
from autotune.space import Candidate
from autotune.tuning.replay import candidate_of

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH = 3, 2
"""Other sizes, machines or conditions that are asked, the nearest ones, and records of each."""


def hints(session: Session, without: Collection[str] = ()) -> list[Candidate]:
    """The best candidates of the nearest records, as far as this space has them, nearest first.

    Those of programs with the keys of `without` do not count.
    """
    near = session.database.nearest(
        session.workload, session.target, session.machine, session.conditions,
        limit=(PLACES + len(without)) * EACH, each=EACH,
    )  # fmt: skip
    kept = [n.record for n in near if n.record.workload.key not in without]
    known = [candidate_of(record) for record in kept[: PLACES * EACH]]
    found = [adapted(session.space, candidate) for candidate in known if candidate is not None]
    return list(dict.fromkeys(candidate for candidate in found if candidate is not None))
