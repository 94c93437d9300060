"""Interning: of equal nodes one is kept, for as long as something refers to it.

The table refers weakly to its nodes. Finding and adding one is a single operation of a dict, so
only what takes an entry out of the table, since its node has gone, needs the lock.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from typing import Any

MOST_DEEP = 180
"""Operations inside of each other in one expression (`written.py`): Python's parser takes 200
parentheses."""

CALLS = 20
"""Calls that walking an expression takes for each operation around another one, at most."""

sys.setrecursionlimit(max(sys.getrecursionlimit(), CALLS * MOST_DEEP))

Key = tuple[Any, ...]

_UNSWEPT = 512
"""So many entries of nodes that have gone are removed together."""

_NONE: frozenset[Any] = frozenset()
_put = object.__setattr__
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # the child would wait for a thread that it does not have
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class _Entry(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("key",)
    key: Key


_entries: dict[Key, _Entry] = {}
_gone: deque[_Entry] = deque()
_went = _gone.append  # one object for all entries


entry_of = _entries.get
"""What refers weakly to the node of a key, its class and what tells it from others; or None."""


def intern(
    cls: Any, key: Key, dtype: str, values: Key, operands: tuple[Any, ...] | None = None
) -> Any:
    """The one node of `key`, (cls, ...); with the `values` of `cls.fields` if it is a new one.

    `operands` are the direct subexpressions; None for leaves.
    """
    entry = _entries.get(key)
    node = None if entry is None else entry()
    return _publish(key, _make(cls, dtype, values, operands)) if node is None else node


def _make(cls: Any, dtype: str, values: Key, operands: tuple[Any, ...] | None) -> Any:
    node = object.__new__(cls)
    _put(node, "dtype", dtype)
    for name, value in zip(cls.fields, values):
        _put(node, name, value)
    if operands is not None:
        variables, has_loads, depth, written = _NONE, cls.is_load, 0, 1
        for part in operands:
            found = part.variables
            if not found <= variables:
                variables = found if variables <= found else variables | found
            has_loads = has_loads or part.has_loads
            written += part.written
            if part.depth > depth:
                depth = part.depth
        _put(node, "depth", depth + 1)
        _put(node, "written", written)
        _put(node, "operands", operands)
        _put(node, "variables", variables)
        _put(node, "has_loads", has_loads)
    elif cls.is_variable:
        _put(node, "variables", frozenset((node,)))
    return node


def _publish(key: Key, node: Any) -> Any:
    """`node`, now in the table; or the one of that key that another thread has put there."""
    entry = _Entry(node, _went)
    entry.key = key
    if len(_gone) > _UNSWEPT:
        _sweep()
    if _entries.setdefault(key, entry) is entry:
        return node
    with _lock:
        while True:
            other = _entries.setdefault(key, entry)
            if other is entry:
                return node
            found = other()
            if found is not None:
                return found
            del _entries[key]


def _sweep() -> None:
    with _lock:
        while _gone:
            entry = _gone.popleft()
            if _entries.get(entry.key) is entry:
                del _entries[entry.key]
