"""What bind, parallel, vectorize and unroll share: serial loops become ones of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedule.errors import Illegal
from schedule.rewrite.rebind import plain_loop
from schedule.state import State, replace_func
from tensorir import ForKind, Stmt, map_children, replace


def set_kinds(state: State, changes: Mapping[str, Mapping[str, Any]]) -> State:
    """The state with other fields of serial loops, by the names of these: `kind`, and what goes
    with it. What is around several of them is made once."""
    inside, fields = set[Stmt](), dict[Stmt, Mapping[str, Any]]()
    for name, new in changes.items():
        path = state.loop_path(name)
        plain_loop(state.loop(name), "a loop has one kind")
        inside.update(path)
        fields[path[-1]] = new

    def changed(stmt: Stmt) -> Stmt:
        if stmt not in inside:
            return stmt
        made = map_children(stmt, changed)
        return replace(made, **fields[stmt]) if stmt in fields else made

    return State(replace_func(state.func, body=changed(state.func.body)))


def not_inside(state: State, loop: str, kind: ForKind) -> None:
    """Refuse a loop that lies inside a loop of `kind`."""
    for outer in state.loops_outside(loop):
        if outer.kind is kind:
            raise Illegal(loop, f"loop {loop!r} is inside the {kind} loop {outer.name!r}")
