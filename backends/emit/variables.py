"""Local arrays that are printed as variables: those of which each element is named by a number.

gcc makes variables of such an array by itself, and the same instructions, after several passes have
followed each of its elements through memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorir import (
    TENSORIZE,
    Alloc,
    Buffer,
    Extern,
    For,
    ForKind,
    Prefetch,
    Stmt,
    Store,
    child_stmts,
    int_value,
    loads,
    stmt_exprs,
    touched,
)
from tensorir import dtype as dt


def named_elements(body: Stmt) -> Mapping[Alloc, Sequence[int]]:
    """The elements that are stored or loaded of each array of vectors which `body` allocates, in
    order: of those whose elements are named by numbers alone, and need no address.

    Arrays of scalars are left out: of these, flags tell which are stored side by side.
    """
    found: dict[Alloc, set[int]] = {}
    unnamed: set[Buffer] = set()
    left: list[tuple[Stmt, Mapping[Buffer, Alloc]]] = [(body, {})]  # with arrays of the function
    while left:
        stmt, own = left.pop()
        if isinstance(stmt, Alloc) and dt.lanes(stmt.buffer.dtype) > 1:
            found[stmt] = set()
            own = {**own, stmt.buffer: stmt}
        elif isinstance(stmt, For) and _takes_addresses(stmt):
            own = {}
        for buffer, place in _places(stmt):
            if place is None or buffer not in own:
                unnamed.add(buffer)
            else:
                found[own[buffer]].add(place)
        left += [(child, own) for child in child_stmts(stmt)]
    return {s: sorted(places) for s, places in found.items() if s.buffer not in unnamed}


def _takes_addresses(loop: For) -> bool:
    """Whether the body is a function of its own, or instructions on memory."""
    return loop.kind is ForKind.PARALLEL or TENSORIZE in loop.annotations


def _places(stmt: Stmt) -> Iterator[tuple[Buffer, int | None]]:
    """What a statement itself touches, and which element; None where no number tells."""
    if isinstance(stmt, Store):
        yield stmt.buffer, int_value(stmt.indices[0])
    elif isinstance(stmt, Prefetch):
        yield stmt.buffer, None
    elif isinstance(stmt, Extern):
        yield from ((buffer, None) for buffer, _, _ in touched(stmt))
    for e in stmt_exprs(stmt):
        for load in loads(e):
            yield load.buffer, int_value(load.indices[0])
