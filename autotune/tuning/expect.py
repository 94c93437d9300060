"""What a search can be expected to reach, before it has measured anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.calibration.roofline import argument_bytes
from autotune.cost_model.make import draft_of
from autotune.database.database import Database
from autotune.database.records import Workload
from autotune.errors import DatabaseError
from autotune.machine.work import flops
from tensorir import Numbers, PrimFunc, TensorIRError, parse, specialize

if TYPE_CHECKING:
    from autotune.database.conditions import Conditions
    from autotune.machine.machine import Machine
    from autotune.tuning.session import Session


@dataclass(frozen=True)
class Expectation:
    """Seconds, and what they are expected by."""

    seconds: float
    source: str

    def __str__(self) -> str:
        return f"about {1e3 * self.seconds:.2g} ms, by {self.source}"


def expected(session: Session) -> Expectation | None:
    """By the nearest record, or else by the estimate for the schedule that needs no tuning.

    None where there are neither.
    """
    known = expected_by_records(
        session.database, session.workload, str(session.target), session.machine, session.conditions
    )
    if known is not None or not session.state.defaults:
        return known
    row = session.state.features(session.space, session.state.defaults[0])
    if row is None:
        return None
    seconds = float(draft_of(session.target)(row[None])[0])
    return Expectation(seconds, "the estimate for the default schedule")


def expected_by_records(
    db: Database, workload: Workload, target: str, machine: Machine, conditions: Conditions
) -> Expectation | None:
    """The time of the nearest record, times how much more there is to do here: operations, or bytes
    of the arguments where nothing is computed."""
    try:
        found = db.nearest(workload, target, machine, conditions, limit=1, shipped=True)
    except DatabaseError:  # of a damaged file that ships, which `tune` tells of
        found = db.nearest(workload, target, machine, conditions, limit=1)
    if not found:
        return None
    (near,) = found
    record = near.record
    here = work_of(parse(workload.text), conditions.sizes)
    there = work_of(parse(record.workload.text), record.conditions.sizes)
    if not record.median or not here or not there:
        return None
    return Expectation(record.median * here / there, f"the record of {near}")


def work_of(func: PrimFunc, sizes: Numbers | None) -> int:
    """Operations of a program of these sizes, or bytes of its arguments; 0 where unknown."""
    try:
        fixed = specialize(func, dict(sizes or {}))
    except TensorIRError:
        return 0
    return flops(fixed) or argument_bytes(fixed) or 0
