"""Sums over windows whose terms share a function's value, as one sum of tuples: a weighted mean has
its weights above the line and below it.

Each sum has a nest of its own, which computes again what they have in common: a bilateral filter
takes every exponential twice, and one of colours four times. The terms of each sum keep their
order, so that results are the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir import dtype as dt
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import (
    Reduction,
    inputs_of,
    plain_indices,
    readers,
    reduction_of,
    require,
    same_index,
    writers,
)
from tensorir.expr import BinOp, Call, Expr, Var
from tensorir.func import PrimFunc
from tensorir.numbers.intrin import REINTERPRET
from tensorir.stmt import Block, Seq
from tensorir.te.tensor import Tensor
from tensorir.tensorize.match import Mismatch
from tensorir.visit import blocks, loads, map_loads, substitute, variables, walk_exprs

ABOUT = "sums over windows whose terms have the value of a function in common, as one of tuples"

CHEAP = frozenset((REINTERPRET, "fabs", "isnan", "isinf", "isfinite", "copysign", "floor", "ceil"))
"""Functions that take about as long as a sum does."""


def _recognise(func: PrimFunc, block: Block) -> Alternative:
    last = reduction_of(block, True)
    term = plain_indices(last.term)
    slow = _slow(term, last)
    require(bool(slow), f"the terms of block {block.name!r} take no function")
    nests = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    every = [[*blocks(nest)] for nest in nests]
    alone = [each[0] for each in every if len(each) == 1]
    require(block in alone, f"block {block.name!r} shares its loops with others")
    found = {b.name: r for b in alone if b is not block and (r := _on_axes_of(last, b, slow))}
    later = [b.name for b in alone[alone.index(block) :] if b.name in found]
    require(not later, f"block {later} sums the same functions after block {block.name!r}")
    mine = {name: r for name, r in found.items() if _may_wait(func, name, block, r)}
    require(bool(mine), f"no sum before block {block.name!r} can be made with it")
    return _together([*mine.values(), replace(last, term=term)], tuple(mine))


def _slow(term: Expr, r: Reduction) -> frozenset[Expr]:
    """What takes long of a term, functions and quotients, and is made of a window: sums of rows
    run in one loop as they are, and share it (the rule for chains)."""

    def in_window(e: Expr) -> bool:
        found = (variables(index) for load in loads(e) for index in load.indices)
        return any(v & set(r.own) and v & set(r.reduced) for v in found)

    return frozenset(
        e
        for e in walk_exprs(term)
        if (isinstance(e, Call) and e.name not in CHEAP or isinstance(e, BinOp) and e.op == "/")
        and dt.is_float(e.dtype)
        and in_window(e)
    )


def _on_axes_of(r: Reduction, block: Block, slow: frozenset[Expr]) -> Reduction | None:
    """What a block sums in the variables of another sum, in whose order it is; None where it is of
    other extents or types, or has none of the functions."""
    try:
        found = reduction_of(block, True)
    except Mismatch:
        return None
    sizes = (
        (found.store.buffer.shape, r.store.buffer.shape),
        (tuple(found.reduced.values()), tuple(r.reduced.values())),
    )
    same = all(len(a) == len(b) and all(map(same_index, a, b)) for a, b in sizes)
    if not same or found.term.dtype != r.term.dtype:
        return None
    values: dict[Var, Expr] = dict(zip((*found.own, *found.reduced), (*r.own, *r.reduced)))
    term = plain_indices(substitute(found.term, values))
    return replace(r, term=term, store=found.store) if slow & _slow(term, r) else None


def _may_wait(func: PrimFunc, name: str, block: Block, r: Reduction) -> bool:
    """Whether the sum that a block of that name makes may be made where a later block stands."""
    order = [b.name for b in blocks(func.body)]
    between = {*order[order.index(name) + 1 : order.index(block.name) + 1]}
    if between & set(readers(func, r.store.buffer)):
        return False
    return not any(b.name in between for source in inputs_of(r.term) for b in writers(func, source))


def _together(sums: Sequence[Reduction], replaced: tuple[str, ...]) -> Alternative:
    last, terms = sums[-1], [each.term for each in sums]
    buffers = tuple(each.store.buffer for each in sums)
    inputs = tuple(dict.fromkeys(buffer for term in terms for buffer in inputs_of(term)))

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        from tensorir import te

        tensors = dict(zip(inputs, given))
        add = te.comm_reducer(
            lambda a, b: tuple(x + y for x, y in zip(a, b)),
            lambda *kinds: tuple(te.const(0, kind) for kind in kinds),
            name="sums",
        )

        def element(*i: Expr) -> tuple[Expr, ...]:
            axes = {v: te.reduce_axis(size, v.name) for v, size in last.reduced.items()}
            values = {**dict(zip(last.own, i)), **axes}
            moved = [substitute(term, values) for term in terms]
            read = [map_loads(e, lambda n: tensors[n.buffer][n.indices], {}) for e in moved]
            return add(tuple(read), axis=[*axes.values()])  # type: ignore[no-any-return]

        return te.compute(last.store.buffer.shape, element, names[-1])  # type: ignore[no-any-return]

    return Alternative(buffers, inputs, compute, replaced)


def _examples() -> Sequence[tuple[PrimFunc, str]]:
    """Weighted means of neighbours, in a row and in a plane."""
    from tensorir import te

    u, v = (te.placeholder(shape, "float64", name="u") for shape in ((9,), (6, 5)))
    k, q, *plane = (
        te.reduce_axis(n, x) for n, x in ((3, "k"), (3, "q"), *zip((3, 2, 3, 2), "abcd"))
    )

    def near(i: Expr, k: Expr) -> Expr:
        apart = u[i + k] - u[i + 1]
        return te.exp(-(apart * apart))

    above = te.compute((7,), lambda i: te.sum(near(i, k) * u[i + k], axis=k), "above")
    below = te.compute((7,), lambda i: te.sum(near(i, q), axis=q), "below")
    out = te.compute((7,), lambda i: above[i] / below[i], "out")

    def root(i: Expr, j: Expr, a: Expr, b: Expr) -> Expr:
        return te.sqrt(te.fabs(v[i + a, j + b]) + 1)

    (a, b), (c, d) = plane[:2], plane[2:]
    first = te.compute((4, 4), lambda i, j: te.sum(root(i, j, a, b), axis=[a, b]), "first")
    last = te.compute((4, 4), lambda i, j: te.sum(1 / root(i, j, c, d), axis=[c, d]), "last")
    return [
        (te.create_prim_func([u, out]), "below"),
        (te.create_prim_func([v, first, last]), "last"),
    ]


SUMS_BESIDE = Algorithm(
    name="sums_beside",
    about=ABOUT,
    recognise=_recognise,
    examples=_examples,
    numerics="bitwise",
    preferred=True,
    always=True,
    kinds=("cpu",),
)
