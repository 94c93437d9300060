"""Hints on how memory is used that change no meaning: attributes of the function, by buffer."""

from __future__ import annotations

from schedule.errors import require
from schedule.state import State, replace_func


def add_hint(state: State, key: str, buffer: str, where: str) -> State:
    """The state whose function lists `buffer` under `key`; refuses one that is there already."""
    known = list(state.func.attrs.get(key, ()))
    require(buffer not in known, where, f"{buffer!r} is marked {key} already")
    attrs = {**state.func.attrs, key: sorted([*known, buffer])}
    return State(replace_func(state.func, attrs=attrs))
