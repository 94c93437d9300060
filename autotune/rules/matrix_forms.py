"""Products in forms of matrices: as they are written, and with each of their axes as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from autotune.rules.group import Group, attempt
from autotune.rules.plan import OpenPlan, tried
from autotune.rules.ranked import group_contraction
from schedule import Schedule, library

Form = tuple["library.Contraction", tuple[int, ...]]
"""A contraction and its axes in order, of which the columns are last."""

P = TypeVar("P", bound=OpenPlan)


def in_forms(
    sch: Schedule,
    group: Group,
    bring: Callable[[Schedule, library.Contraction, tuple[int, ...]], object],
    make: Callable[[Schedule, Form | None], P | None],
    enough: Callable[[P], bool],
    windows: bool = True,
) -> list[P]:
    """The best plan of a product, as it was written or with one of its spatial axes as the columns:
    where a factor is read at several variables, or they are not in the order of the result. It says
    whether primitives accept it, and why they refused others before it. None where there is none.

    bring    what brings a copy of the schedule to a form
    make     the plan of what that is then, for a form or None; None where it is no such product
    enough   whether no other plan is looked for than that one, if it works
    windows  whether terms may be read in windows: matrices with a dimension for each axis are then
             larger than what they are copied of
    """
    refused, found = dict[str, str](), list[P]()
    for form in _forms(sch, group, windows):
        trial = sch.copy()
        if form is not None:
            columns = f"{group.block!r} with axis {form[1][-1]} as columns"
            if not attempt(refused, columns, bring, trial, *form):
                continue
        plan = make(trial, form)
        if plan is not None:
            plan = tried(sch, plan, refused)
            if plan.works and enough(plan):
                return [plan]
            found.append(plan)
    return sorted(found, key=lambda plan: (plan.failed, plan.cycles))[:1]


def _forms(sch: Schedule, group: Group, windows: bool) -> Iterator[Form | None]:
    yield None
    c = group_contraction(sch, group)
    if c is not None and (windows or not any(map(c.is_window, c.reduced))):
        for last in reversed(c.spatial):
            yield c, (*(n for n in c.spatial if n != last), last)
