"""Batches: what is proposed together, and how a batch that was cut off is taken up again.

What is proposed is a function of the seed, of the number of the batch (the trials known when it was
begun, and the candidates that repeated one) and of the trials stored before it. Each trial's record
has that number. So a search that was ended in the middle of a batch, in whatever way, makes the
same proposals again from what was known at its start, and measures what is missing of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.database.records import Record
from autotune.search import Propose
from autotune.space import Candidate

if TYPE_CHECKING:
    from autotune.tuning.session import Session

BATCH = 8
"""Candidates of the first batches: few, so that the model learns early."""


def batch_size(known: int) -> int:
    """Candidates of a batch that is begun with so many `known`: of many, few more teach the model
    little, and each batch takes new proposals, and a wait for the last of its builds."""
    return BATCH if known < 4 * BATCH else 2 * BATCH


@dataclass(frozen=True)
class Batch:
    """Candidates that were proposed together; `missing` were not measured yet."""

    number: int
    proposed: Sequence[Candidate]
    missing: Sequence[Candidate]


def next_batch(session: Session, propose: Propose) -> Batch:
    """What is open of the last batch, or a new one. Nothing proposed: nothing is left to try.

    A batch is always proposed as a whole, whatever the number of trials that are wanted, so that
    a search that is extended goes on as if it had never stopped.
    """
    cut_off = session.take_open()
    number = (cut_off[0].batch or 0) if cut_off else session.known
    rng = random.Random(f"{session.seed}:{number}")
    proposed = propose(session.space, session.state, batch_size(number), rng)
    for record in cut_off:
        session.learn(record)
    missing = [candidate for candidate in proposed if not session.state.spent(candidate)]
    return Batch(number, proposed, missing)


def split_open(
    records: Sequence[Record], seed: int, rules: str
) -> tuple[list[Record], list[Record]]:
    """The stored trials before the last batch, and from its first one on; nothing of the second
    where the last batch is whole, or was proposed with another seed or in another design space.

    `records` are in the order in which they were stored. Trials that belong to no batch, as those
    that were imported meanwhile, were not known at its start if they come after its first one.
    """
    own: list[int] = []
    for at in range(len(records) - 1, -1, -1):
        record = records[at]
        if record.batch is None:
            continue
        other = (record.seed, record.rules) != (seed, rules)
        if other or own and record.batch != records[own[-1]].batch:
            break
        own.append(at)
    if not own or len(own) >= batch_size(records[own[-1]].batch or 0):
        return list(records), []
    return list(records[: own[-1]]), list(records[own[-1] :])
