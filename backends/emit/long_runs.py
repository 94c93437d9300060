"""Which buffers are filled in the order of memory, much at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorir import Analyzer, For, PrimFunc, Ramp, Stmt, Store, child_stmts, slope
from tensorir import dtype as dt

RUN = 4096
"""Bytes in the order of memory from which on it does not count that the first line and the last one
are stored in part, which takes several times as long."""


def long_runs(func: PrimFunc) -> frozenset[str]:
    """The streamed buffers that loops fill in the order of memory, so much at a time."""
    streamed = frozenset(func.attrs.get("stream", ()))
    if not streamed:
        return streamed
    found, analyzer = set(), Analyzer()
    for loops, stores in _innermost(func.body, ()):
        for name in streamed.intersection(s.buffer.name for s in stores):
            own = [s for s in stores if s.buffer.name == name]
            if _run(own, loops, analyzer) * dt.itemsize(own[0].buffer.dtype) >= RUN:
                found.add(name)
    return frozenset(found)


def _innermost(stmt: Stmt, loops: Sequence[For]) -> Iterator[tuple[Sequence[For], list[Store]]]:
    """The stores that stand in the same loops, with these, the outermost first."""
    stores: list[Store] = []
    stack = [stmt]
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            yield from _innermost(s.body, (*loops, s))
        elif isinstance(s, Store):
            stores.append(s)
        stack.extend([] if isinstance(s, For) else child_stmts(s))
    yield loops, stores


def _run(stores: Sequence[Store], loops: Sequence[For], analyzer: Analyzer) -> int:
    """How many elements stores of vectors write one after the other; 0 where they do not."""
    places = [s.indices[-1] for s in stores]
    vectors = [p for p in places if isinstance(p, Ramp) and p.stride == 1]
    if not vectors:
        return 0
    first = vectors[0].base
    apart = {analyzer.simplify(p.base - first): p.lanes for p in vectors}
    run = sum(apart.values())
    for loop in reversed(loops):
        if slope(first, loop.var, analyzer) != run:
            break
        run *= loop.const_extent or RUN
    return run
