"""Copies of plans with some fields changed, which are made by the hundred."""

from __future__ import annotations

from typing import Any, TypeVar

P = TypeVar("P")


def varied(plan: P, **changes: Any) -> P:
    """`dataclasses.replace` in a tenth of the time: nothing is computed again, as plans are plain
    fields. TypeError for a field that a plan does not have."""
    made: P = object.__new__(type(plan))
    fields = vars(made)
    fields.update(vars(plan), **changes)
    if len(fields) != len(vars(plan)):
        raise TypeError(f"{type(plan).__name__} has no {', '.join(fields.keys() - vars(plan))}")
    return made
