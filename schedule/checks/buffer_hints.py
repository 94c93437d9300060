"""Hints on how memory is used that change no meaning: attributes of the function, by buffer."""

from __future__ import annotations

from typing import Any

from schedule.analysis.uses import readers, writers
from schedule.errors import require
from schedule.state import State, replace_func
from tensorir import Buffer

KEYS = ("align", "swizzle", "double_buffer", "stream")
"""The attributes: lists of buffers, or dictionaries from them."""


def add_hint(state: State, key: str, buffer: str, where: str) -> State:
    """The state whose function lists `buffer` under `key`; refuses one that is there already."""
    known = list(state.func.attrs.get(key, ()))
    require(buffer not in known, where, f"{buffer!r} is marked {key} already")
    attrs = {**state.func.attrs, key: sorted([*known, buffer])}
    return State(replace_func(state.func, attrs=attrs), state)


def require_unmarked(state: State, buffer: Buffer, where: str, step: str) -> None:
    """Refuse a buffer that is marked, or that an annotated block uses: `step` comes before that."""
    marks = [key for key in KEYS if buffer.name in state.func.attrs.get(key, ())]
    require(not marks, where, f"{buffer.name!r} is marked {', '.join(marks)}", f"{step} first")
    for user in (*writers(state, buffer), *readers(state, buffer)):
        keys = ", ".join(state.block(user).annotations)
        why = f"block {user!r}, which uses {buffer.name!r}, is annotated with {keys}"
        require(not keys, user, why, f"{step} first")


def without_lost(before: State, after: State) -> State:
    """`after` without hints for buffers that a step removed: others may get their names."""
    attrs, old, new = after.func.attrs, {*before.func.buffers}, {*after.func.buffers}
    lost = {b.name for b in old - new} - {b.name for b in new - old}
    if not lost:
        return after
    stale = [key for key in KEYS if lost.intersection(attrs.get(key, ()))]
    if not stale:
        return after
    kept: dict[str, Any] = {key: value for key, value in attrs.items() if key not in stale}
    for key in stale:
        marked = attrs[key]
        left = [name for name in marked if name not in lost]
        if left:
            kept[key] = {name: marked[name] for name in left} if isinstance(marked, dict) else left
    return State(replace_func(after.func, attrs=kept), after)
