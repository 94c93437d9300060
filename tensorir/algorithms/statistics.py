"""Welford's moments and the online normalizer of softmax in two passes.

Both reduce tuples in one pass, each step of which waits for the one before. Two plain reductions
one after the other read a row twice, and many lanes and rows go on at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import is_used, require
from tensorir.algorithms.tuples import RowTerms, TupleUpdate, tuple_update
from tensorir.expr import BinOp, Expr, cast, const, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block
from tensorir.te.axis import Axis
from tensorir.te.reducer import Reducer
from tensorir.te.tensor import Tensor


def _moments(func: PrimFunc, block: Block) -> Alternative:
    """Mean and squared distances of a block that reduces by ops.moments.welford."""
    from tensorir.ops.moments import welford

    reducer: Reducer = welford.reducer  # type: ignore[attr-defined]
    what = f"block {block.name!r} reduces no triples (1, x, 0) by Welford's rule"
    update = tuple_update(block, reducer, 3, what)
    x = _distance(update)
    require(x is not None, what)
    assert x is not None
    one, zero = const(1, x.dtype), const(0, x.dtype)
    require(update.is_of(reducer, (one, x, zero)), what)
    counts, means, squares = (store.buffer for store in update.stores)
    require(not is_used(func, counts, block), f"the counts of block {block.name!r} are used")
    filled = all(int_value(size) for size in update.row.reduced.values())
    require(filled, f"rows of block {block.name!r} may be empty")
    terms = update.row.over(x)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return _mean_and_squares(terms, given, names)

    return Alternative((means, squares), terms.inputs, compute)


def _distance(update: TupleUpdate) -> Expr | None:
    """x of mean + (x - mean) * share."""
    value = update.stores[1].value
    product = value.b if isinstance(value, BinOp) and value.op == "+" else None
    step = product.a if isinstance(product, BinOp) and product.op == "*" else None
    return step.a if isinstance(step, BinOp) and step.op == "-" else None


def _mean_and_squares(
    terms: RowTerms, given: Sequence[Tensor], names: Sequence[str]
) -> Sequence[Tensor]:
    from tensorir import te

    shape = terms.row.shape

    def term(i: Sequence[Expr], prefix: str) -> tuple[Expr, list[Axis]]:
        (value,), axes = terms.at(i, given, prefix)
        return value, axes

    def summed(*i: Expr) -> Expr:
        value, axes = term(i, "k")
        return te.sum(value, axis=axes)

    total = te.compute(shape, summed, f"{names[0]}_total")
    count: Expr = const(1)
    for size in terms.row.reduced.values():
        count = count * size
    mean = te.compute(shape, lambda *i: total[i] / cast(total.dtype, count), names[0])

    def squared(*i: Expr) -> Expr:
        value, axes = term(i, "r")
        return te.sum((value - mean[i]) * (value - mean[i]), axis=axes)

    return mean, te.compute(shape, squared, names[1])


def _normalizer(func: PrimFunc, block: Block) -> Alternative:
    """Maximum and sum of exponentials of a block that reduces by ops.softmax.online_normalizer."""
    from tensorir.ops.softmax import online_normalizer, part

    reducer: Reducer = online_normalizer.reducer  # type: ignore[attr-defined]
    what = f"block {block.name!r} is no online normalizer of exponentials"
    update = tuple_update(block, reducer, 2, what)
    top = update.stores[0].value
    require(isinstance(top, BinOp) and top.op == "max", what)
    assert isinstance(top, BinOp)
    x = top.b if top.a is update.old[0] else top.a
    require(update.is_of(reducer, part(x)), what)
    terms = update.row.over(x)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return _top_and_total(terms, given, names)

    return Alternative(tuple(s.buffer for s in update.stores), terms.inputs, compute)


def _top_and_total(
    terms: RowTerms, given: Sequence[Tensor], names: Sequence[str]
) -> Sequence[Tensor]:
    from tensorir import te

    shape = terms.row.shape

    def largest(*i: Expr) -> Expr:
        (value,), axes = terms.at(i, given)
        return te.max(value, axis=axes)

    top = te.compute(shape, largest, names[0])

    def summed(*i: Expr) -> Expr:
        (value,), axes = terms.at(i, given, "r")
        return te.sum(te.exp(value - top[i]), axis=axes)

    return top, te.compute(shape, summed, names[1])


def _moment_examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    x = te.placeholder((3, 7), "float64", name="x")
    y = te.placeholder((2, 3, 4), "float64", name="y")
    return [
        (te.create_prim_func([x, ops.var(x, 1, algorithm="welford")]), "moments"),
        (te.create_prim_func([y, ops.var(y, (0, 2), algorithm="welford")]), "moments"),
    ]


def _normalizer_examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    x = te.placeholder((3, 7), "float64", name="x")
    return [(te.create_prim_func([x, ops.softmax(x, algorithm="online")]), "normalizer")]


STATISTICS = (
    Algorithm(
        name="two_pass_moments",
        about="the mean of a row, and then the squared distances from it, for Welford's triples",
        recognise=_moments,
        examples=_moment_examples,
    ),
    Algorithm(
        name="two_pass_normalizer",
        about="the maximum of a row, and then the sum of exponentials, for the online normalizer",
        recognise=_normalizer,
        examples=_normalizer_examples,
    ),
)
