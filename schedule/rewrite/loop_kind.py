"""What parallel, vectorize and unroll share: turning a serial loop into one of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedule.errors import require
from schedule.rewrite.rebind import plain_loop
from schedule.state import State
from tensorir import ForKind, replace


def set_kind(
    state: State, loop: str, kind: ForKind, annotations: Mapping[str, Any] | None = None
) -> State:
    """The state with a serial loop made `kind`."""
    node = state.loop(loop)
    plain_loop(node, "a loop has one kind")
    new = replace(node, kind=kind, annotations=dict(annotations or {}))
    return state.replace(state.loop_path(loop), new)


def not_inside(state: State, loop: str, kind: ForKind) -> None:
    """Refuse a loop that lies inside a loop of `kind`."""
    for outer in state.loops_outside(loop):
        require(
            outer.kind is not kind,
            loop,
            f"loop {loop!r} is inside the {kind} loop {outer.name!r}",
        )
