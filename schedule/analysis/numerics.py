"""The numerics class of a schedule: what it may do to floating-point results."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import blocks_below, innermost
from tensorir import (
    APPLIED_ALGORITHMS,
    Analyzer,
    BinOp,
    Block,
    Call,
    For,
    ForKind,
    IterKind,
    Let,
    PrimFunc,
    Store,
    blocks,
    decompose,
    dtype,
    find_algorithm,
    find_intrin,
    loads,
    stmt_exprs,
    variables,
    walk,
    walk_exprs,
    weakest,
)

EXACT_ANY_ORDER = ("min", "max", "and", "or")

REGROUPED = "regrouped"
"""The attribute of a function in which floating-point sums or products were grouped otherwise."""


def numerics_class(func: PrimFunc, definition: PrimFunc) -> str:
    """ "bitwise" if every float reduction adds the same terms in the same order as `definition`,
    and products are grouped as there, else "reassociated"; the class of another algorithm that was
    put in its place; "mixed" if an intrinsic that rounds otherwise than the loops adds them.

    Reductions by min, max, and, or, and those of integers, give equal bits in any order, but for
    which of 0.0 and -0.0 is the extreme of both, and which NaN is found: nothing says that.
    """
    inner = innermost(func.body)
    if any([_rounds_otherwise(loops) for _, loops in inner]):
        return "mixed"
    found = [find_algorithm(name) for name in func.attrs.get(APPLIED_ALGORITHMS, {}).values()]
    applied = weakest([known.numerics if known else "mixed" for known in found])
    if func.attrs.get(REGROUPED) and not definition.attrs.get(REGROUPED):
        return weakest([applied, "reassociated"])
    return weakest([applied, _order_class(func, definition, inner)])


def _order_class(
    func: PrimFunc, definition: PrimFunc, inner: Sequence[tuple[Block, tuple[For, ...]]]
) -> str:
    """ "bitwise", or "reassociated" where the sums of the program are not those of `definition`."""
    original = _definitions(definition, [block for block, _ in inner])
    for block, loops in inner:
        if not order_matters(block):
            continue
        known = original.get(block.name)
        same = known is not None and _same_terms(known, block)
        if known is None or not same or not _in_order(block, loops):
            return "reassociated"
        if _starts(func, block) != _starts(definition, known) or _in_intrinsic(block, loops):
            return "reassociated"
    return "bitwise"


def _definitions(definition: PrimFunc, found: list[Block]) -> dict[str, Block]:
    """The block of `definition` that each block carries out, whole or in part, by its name.

    A part of a loop has copies of blocks, under names of their own. They share the body of the
    block that was copied, or the one that it had in the definition.
    """
    named = {b.name: b for b in blocks(definition.body)}
    bodies = {b.body: b for b in named.values()}
    bodies |= {b.body: named[b.name] for b in found if b.name in named}
    copies = {b.name: bodies[b.body] for b in found if b.name not in named and b.body in bodies}
    return {**named, **copies}


def order_matters(block: Block) -> bool:
    """Whether a float is computed from what the reduction has so far, other than by selecting."""
    if not block.is_reduction:
        return False
    made = {s.buffer for s in walk(block.body) if isinstance(s, Store)}
    lets = {s.var for s in walk(block.body) if isinstance(s, Let)}
    for stmt in walk(block.body):
        for e in stmt_exprs(stmt):
            for node in walk_exprs(e):
                rounds = isinstance(node, Call) or (
                    isinstance(node, BinOp) and node.op not in EXACT_ANY_ORDER
                )
                if not rounds or not dtype.is_float(dtype.element(node.dtype)):
                    continue
                if lets & variables(node) or any([n.buffer in made for n in loads(node)]):
                    return True
    return False


def _same_terms(a: Block, b: Block) -> bool:
    """Whether two blocks reduce over variables of the same names and extents."""
    mine, theirs = (x.reduced for x in (a, b))
    pairs = zip(mine, theirs)
    alike = all([x.var is y.var and x.extent is y.extent for x, y in pairs])
    return len(mine) == len(theirs) and alike


def _rounds_otherwise(loops: tuple[For, ...]) -> bool:
    """Whether a tensor intrinsic takes the place of `loops` that does not round as they do."""
    names = (loop.annotations.get("tensorize") for loop in loops)
    found = [find_intrin(str(name)) for name in names if name is not None]
    return any([intrin is not None and intrin.numerics == "mixed" for intrin in found])


def _in_intrinsic(block: Block, loops: tuple[For, ...]) -> bool:
    """Whether terms are added by a tensor intrinsic, in an order that is its own."""
    used = [it.binding for it in block.reduced]
    mine = {f.var for f in loops if {"tensorize", "tensorized_by"} & set(f.annotations)}
    return any(mine & variables(binding) for binding in used)


def _starts(func: PrimFunc, block: Block) -> set[int]:
    """The values that a reduction starts from, wherever they are stored; interned, so by id."""
    if isinstance(block.init, Store):
        return {id(block.init.value)}
    buffers = {s.buffer for s in walk(block.body) if isinstance(s, Store)}
    apart = [b for b in blocks_below(func.body) if b.body is not block.body]
    others = [s for b in apart for s in walk(b.body)]
    return {id(s.value) for s in others if isinstance(s, Store) and s.buffer in buffers}


def _in_order(block: Block, loops: tuple[For, ...]) -> bool:
    """Whether the loops visit the reduce variables in lexicographic order.

    That is so when, from the outermost loop inwards, the digits that they stand for get less
    significant: earlier variables first, larger scales first.
    """
    shared = {loop.var for loop in loops if loop.kind is ForKind.THREAD}
    if any([it.kind is IterKind.REDUCE and shared & variables(it.binding) for it in block.iters]):
        return False  # each thread has some of the terms
    ranges = {loop.var: loop.extent for loop in loops}
    analyzer = Analyzer(ranges)
    places: dict[str, list[tuple[int, int]]] = {}
    for number, it in enumerate(block.reduced):
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
