"""The numerics class of a schedule: what it may do to floating-point results."""

from __future__ import annotations

from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Expr,
    For,
    IterKind,
    PrimFunc,
    Stmt,
    Store,
    blocks,
    child_stmts,
    decompose,
    dtype,
)

EXACT_ANY_ORDER = ("min", "max", "and", "or")


def numerics_class(func: PrimFunc, definition: PrimFunc) -> str:
    """ "bitwise" if every float reduction adds the same terms in the same order as `definition`,
    else "reassociated".

    Reductions by min, max, and, or, and those of integers, give equal bits in any order.
    """
    original = {b.name: b for b in blocks(definition.body)}
    for block, loops in _with_loops(func.body, ()):
        if not _order_matters(block):
            continue
        known = original.get(block.name)
        same = known is not None and _terms(known) == _terms(block)
        if not same or not _in_order(block, loops):
            return "reassociated"
    return "bitwise"


def _with_loops(stmt: Stmt, loops: tuple[For, ...]) -> list[tuple[Block, tuple[For, ...]]]:
    if isinstance(stmt, Block):
        return [(stmt, loops)]
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    return [pair for child in child_stmts(stmt) for pair in _with_loops(child, inside)]


def _order_matters(block: Block) -> bool:
    if not block.is_reduction or not isinstance(block.body, Store):
        return False
    value = block.body.value
    exact = isinstance(value, BinOp) and value.op in EXACT_ANY_ORDER
    return dtype.is_float(block.body.buffer.dtype) and not exact


def _terms(block: Block) -> list[tuple[str, Expr]]:
    return [(it.var.name, it.extent) for it in block.iters if it.kind is IterKind.REDUCE]


def _in_order(block: Block, loops: tuple[For, ...]) -> bool:
    """Whether the loops visit the reduce variables in lexicographic order.

    That is so when, from the outermost loop inwards, the digits that they stand for get less
    significant: earlier variables first, larger scales first.
    """
    ranges = {loop.var: loop.extent for loop in loops}
    analyzer = Analyzer(ranges)
    places: dict[str, list[tuple[int, int]]] = {}
    for number, it in enumerate(i for i in block.iters if i.kind is IterKind.REDUCE):
        parts = decompose(it.binding, ranges, analyzer)
        if parts is None:
            return False
        for digit in parts[0]:
            places.setdefault(digit.var.name, []).append((number, -digit.scale))
    last = (-1, 0)
    for loop in loops:
        for place in sorted(places.get(loop.name, [])):
            if place <= last:
                return False
            last = place
    return True
