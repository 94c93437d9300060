"""What the database knows of other sizes of a program, as candidates to begin a search with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.search.transfer import adapted
from autotune.space import Candidate
from autotune.tuning.replay import candidate_of

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH = 3, 2
"""Other sizes, machines or conditions that are asked, the nearest ones, and records of each."""


def hints(session: Session) -> list[Candidate]:
    """The best candidates of the nearest records, as far as this space has them, nearest first."""
    near = session.database.nearest(
        session.workload, session.target, session.machine, session.conditions,
        limit=PLACES * EACH, each=EACH,
    )  # fmt: skip
    known = [candidate_of(n.record) for n in near]
    found = [adapted(session.space, candidate) for candidate in known if candidate is not None]
    return list(dict.fromkeys(candidate for candidate in found if candidate is not None))
