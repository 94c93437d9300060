"""Copies of plans with some fields changed, which are made by the hundred."""

from __future__ import annotations

from typing import Any, TypeVar

P = TypeVar("P")


def varied(plan: P, **changes: Any) -> P:
    """`dataclasses.replace` in a tenth of the time: nothing is computed again, as plans are plain
    fields. TypeError for a field that a plan does not have."""
    made: P = object.__new__(type(plan))
    fields, own = made.__dict__, plan.__dict__
    fields.update(own, **changes)
    if len(fields) != len(own):
        raise TypeError(f"{type(plan).__name__} has no {', '.join(fields.keys() - own)}")
    return made
