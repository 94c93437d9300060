"""How wide the lanes of a vectorized loop have to be: as its widest value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set

from tensorir import dtype as dt
from tensorir.expr import BinOp, Cast, Expr, Load, Select, Var
from tensorir.stmt import For, ForKind, Let, Store
from tensorir.visit import children, walk

DEFAULT = 32
"""Bits of a lane where nothing is stored."""

SHIFTED = 32
"""Bits of the narrowest lanes that processors shift each by a number of its own."""


def widest(loop: For, written: Collection[Var] = ()) -> int:
    """Bits of the widest number that the body of `loop` computes with; indices do not count.

    Of conditions that count which differ between iterations: numbers that are compared lie in
    vectors too, and a vector of more than a register is taken apart by the compiler. Variables of
    loops that are `written` out, around it or inside, are numbers.
    """
    inside = (s.var for s in walk(loop.body) if isinstance(s, For) and s.kind is ForKind.UNROLLED)
    numbers = {*written, *inside}
    stores = [s for s in walk(loop.body) if isinstance(s, Store)]
    lets = [s for s in walk(loop.body) if isinstance(s, Let)]
    varying = {loop.var, *(s.var for s in lets)}
    widths = {dt.bits(s.buffer.dtype) for s in stores} or {DEFAULT}
    for node, compared in _parts([*(s.value for s in stores), *(s.value for s in lets)]):
        an_index = isinstance(node, Cast) and node.dtype == dt.INDEX
        if not (compared or an_index) or _differs(node, varying):
            widths |= _widths(node, numbers)
    return max(widths)


def _parts(roots: Iterable[Expr]) -> Iterator[tuple[Expr, bool]]:
    """What `roots` are made of, but for indices, and whether in the condition of a select."""
    pending = [(root, False) for root in roots]
    seen = set(pending)
    while pending:
        node, compared = pending.pop()
        yield node, compared
        parts = () if isinstance(node, Load) else children(node)
        cond = node.cond if isinstance(node, Select) else None
        for part in parts:
            new = (part, compared or part is cond)
            if new not in seen:
                seen.add(new)
                pending.append(new)


def _widths(node: Expr, numbers: Set[Var]) -> set[int]:
    """Bits of the numbers that a load, a conversion or a shift by lanes makes."""
    if isinstance(node, BinOp) and node.op in ("<<", ">>"):
        known = not node.b.has_loads and node.b.variables <= numbers
        return set() if known else {SHIFTED}
    if not isinstance(node, (Load, Cast)):
        return set()
    if isinstance(node, Cast) and {node.dtype, node.a.dtype} & set(dt.STORAGE_ONLY):
        return {32, dt.bits(node.dtype)}  # conversions of storage types go through float32
    return {dt.bits(node.dtype)}


def _differs(node: Expr, varying: Collection[Var]) -> bool:
    """Whether `node` is made of elements that differ between iterations."""
    return node.has_loads and not node.variables.isdisjoint(varying)
