"""What bind, parallel, vectorize and unroll share: serial loops become ones of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedule.errors import Illegal
from schedule.rewrite.rebind import plain_loop
from schedule.state import State
from tensorir import ForKind, Seq, Stmt, map_children, replace


def set_kinds(state: State, changes: Mapping[str, Mapping[str, Any]]) -> State:
    """The state with other fields of serial loops, by the names of these: `kind`, and what goes
    with it. What is around several of them is made once."""
    inside, fields = set[Stmt](), dict[Stmt, Mapping[str, Any]]()
    nests, first = dict[Stmt, None](), int(isinstance(state.func.body, Seq))
    for name, new in changes.items():
        path = state.loop_path(name)
        plain_loop(state.loop(name), "a loop has one kind")
        inside.update(path)
        nests[path[first]], fields[path[-1]] = None, new

    def changed(stmt: Stmt) -> Stmt:
        made = map_children(stmt, changed) if stmt in inside else stmt
        return replace(made, **fields[stmt]) if stmt in fields else made

    for nest in nests:
        state = state.replace((state.func.body, nest)[1 - first :], changed(nest))
    return state


def not_inside(state: State, loop: str, kind: ForKind) -> None:
    """Refuse a loop that lies inside a loop of `kind`."""
    for outer in state.loops_outside(loop):
        if outer.kind is kind:
            raise Illegal(loop, f"loop {loop!r} is inside the {kind} loop {outer.name!r}")
