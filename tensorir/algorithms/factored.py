"""Sums with the factors taken out that all terms have: s * sum(a * b) for sum(a * b * s).

Where s is a number of a row or a column of the result, terms are products of three, and a sum has
two operations for each, of which the second one is the same multiplication again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tensorir import dtype
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import require, variables_of
from tensorir.algorithms.tuples import Row
from tensorir.expr import BinOp, Const, Expr, Load, Var
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor
from tensorir.visit import loads, variables


def _recognise(func: PrimFunc, block: Block) -> Alternative:
    store, init = block.body, block.init
    what = f"block {block.name!r} is no sum of products of floats from 0 on"
    require(isinstance(store, Store) and isinstance(init, Store), what)
    assert isinstance(store, Store) and isinstance(init, Store)
    value, old = store.value, Load(store.buffer, store.indices)
    zero = isinstance(init.value, Const) and init.value.value == 0
    require(zero and isinstance(value, BinOp) and value.op == "+", what)
    assert isinstance(value, BinOp)
    require(value.a is old and dtype.is_float(value.dtype), what)
    require(not any(load.buffer is store.buffer for load in loads(value.b)), what)
    reduced, spatial = (variables_of(block, k) for k in (IterKind.REDUCE, IterKind.SPATIAL))
    own = tuple(i for i in store.indices if isinstance(i, Var))
    apart = f"block {block.name!r} stores elsewhere than at its variables"
    require(len(own) == len(store.indices) and set(own) == set(spatial), apart)
    every = list(_factors(value.b))
    alike = [e for e in every if e.has_loads and variables(e).isdisjoint(reduced)]
    rest = [e for e in every if e not in alike]
    none = f"no factor of the terms of block {block.name!r} is the same for all of them"
    require(bool(alike) and any(e.has_loads for e in rest), none)
    terms = Row(own, reduced, store.buffer.shape).over(_product(rest), _product(alike))

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        from tensorir import te

        def summed(*i: Expr) -> Expr:
            (term, _), axes = terms.at(i, given)
            return te.sum(term, axis=axes)

        def scaled(*i: Expr) -> Expr:
            (_, factor), _ = terms.at(i, given)
            return BinOp("*", sums[i], factor)

        sums = te.compute(terms.row.shape, summed, f"{names[0]}_sums")
        return [te.compute(terms.row.shape, scaled, names[0])]

    return Alternative((store.buffer,), terms.inputs, compute)


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, BinOp) and e.op == "*":
        return [*_factors(e.a), *_factors(e.b)]
    return [e]


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: BinOp("*", a, b), factors)


def _examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    a, b = te.placeholder((4, 6), "float64", name="a"), te.placeholder((6, 5), "float64", name="b")
    s, t = te.placeholder((4,), "float64", name="s"), te.placeholder((5,), "float64", name="t")
    k = te.reduce_axis(6, name="k")
    rows = te.compute((4, 5), lambda i, j: te.sum(a[i, k] * b[k, j] * s[i], axis=k), "y")
    both = te.compute((4, 5), lambda i, j: te.sum(t[j] * a[i, k] * (s[i] * b[k, j]), axis=k), "y")
    return [
        (te.create_prim_func([a, b, s, rows]), "y"), (te.create_prim_func([a, b, s, t, both]), "y"),
    ]  # fmt: skip


FACTORED = Algorithm(
    name="factored",
    about="a sum of products, times the factors that are the same for all terms",
    recognise=_recognise,
    examples=_examples,
    numerics="reassociated",
    preferred=True,
)
