"""What ships with the project, in place of a search that need not be made."""

from __future__ import annotations

from collections.abc import Collection

from autotune.database.conditions import Conditions
from autotune.database.records import Workload
from autotune.database.shipped import Shipped, shipped_here
from autotune.errors import DatabaseError
from autotune.machine.machine import this_machine
from autotune.tuning.replay import is_current, replayed
from autotune.tuning.session import Session
from backends import resolve
from schedule import Schedule
from tensorir import PrimFunc, Target


def shipped_answer(session: Session, trials: int) -> Shipped | None:
    """The best shipped record of this program and kind of machine that took so many trials.

    None where the database has trials of its own: they are of this very machine. Records whose
    steps make other code today do not count, and the session's notice says so, as it does where
    a file is damaged.
    """
    if session.stored:
        return None
    try:
        found = shipped_here(
            session.workload, session.target, session.machine, session.conditions, session.numerics
        )
    except DatabaseError as error:
        session.note(f"records that ship are not used: {error}")
        return None
    enough = [each for each in found if each.trials >= trials]
    for each in enough:
        if is_whole(each):
            return each
    if enough:
        session.note(
            f"the record in {enough[0].place} is of another version of this project, whose code for"
            " its steps was another one: searching"
        )
    return None


def shipped_schedule(
    func: PrimFunc, target: Target | str, constants: Collection[str], numerics: str
) -> Schedule | None:
    """The schedule of the best shipped record that counts here; None where there is none.

    Raises DatabaseError where a file is damaged.
    """
    resolved = resolve(target)
    found = shipped_here(
        Workload.of(func, constants), resolved, this_machine(), Conditions.here(resolved), numerics
    )
    best = next(filter(is_whole, found), None)
    return None if best is None else replayed(func, best.record)


def is_whole(shipped: Shipped) -> bool:
    """Whether the steps of a record still make the code that was timed."""
    return is_current(shipped.record, Target.parse(shipped.record.target))
