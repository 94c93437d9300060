"""Sums of products of small integers, with both factors as int16: what multiplies pairs of int16
and adds both products to an int32 is one instruction of every x86 (vpmaddwd), and what does so with
bytes is not. Where there is none, each term of int32 takes a product and a sum of its own.

The products are the same numbers, and sums of int32 wrap alike in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensorir import dtype
from tensorir.algorithms.algorithm import Alternative
from tensorir.algorithms.recognise import (
    Reduction,
    inputs_of,
    of_reductions,
    plain_indices,
    reduction_of,
    require,
)
from tensorir.expr import BinOp, Cast, Const, Expr, Load, Var, cast, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.intervals import Intervals
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.visit import loads, map_loads, substitute, variables

SHORT, SUM = "int16", "int32"
SHARED = 8
"""Results that share an element, from which on it is made ahead."""
SYMBOLIC = 256
"""The size assumed for a symbolic one."""


@dataclass(frozen=True)
class _Factor:
    """A factor, and the only element that it is made of."""

    value: Expr
    load: Load

    @property
    def is_short(self) -> bool:
        """Whether it is an element of int16 as it is."""
        return self.value is Cast(SUM, self.load) and self.load.dtype == SHORT

    def of(self, element: Expr) -> Expr:
        """What another element makes, in 16 bits."""
        value = self.value.a if isinstance(self.value, Cast) else self.value
        return cast(SHORT, map_loads(value, lambda _: element, {}))


def _recognise(func: PrimFunc, block: Block, rounds: bool) -> Alternative:
    found = reduction_of(block, rounds)
    term = found.term
    none = f"block {block.name!r} sums no products of {SUM}"
    require(found.op == "+" and isinstance(term, BinOp) and term.op == "*", none)
    assert isinstance(term, BinOp)
    require(term.dtype == SUM, none)
    factors = [_factor(e, f"a factor of block {block.name!r}") for e in (term.a, term.b)]
    require(not all(f.is_short for f in factors), f"factors of block {block.name!r} are {SHORT}")
    require(_is_product(found, factors), f"block {block.name!r} is no product of two matrices")
    inputs = inputs_of(term)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        from tensorir import te

        tensors = dict(zip(inputs, given))

        def in_short(factor: _Factor, name: str) -> Tensor:
            source = tensors[factor.load.buffer]
            if factor.is_short:
                return source
            short: Tensor = te.compute(source.shape, lambda *i: factor.of(source[i]), name)
            return short

        made = [in_short(factor, f"{names[0]}_{n}") for n, factor in enumerate(factors)]

        def summed(*i: Expr) -> Expr:
            axes = {v: te.reduce_axis(size, v.name) for v, size in found.reduced.items()}
            values = {**dict(zip(found.own, i)), **axes}
            places = [[substitute(n, values) for n in factor.load.indices] for factor in factors]
            a, b = (cast(SUM, source[tuple(at)]) for source, at in zip(made, places))
            return te.sum(a * b, axis=[*axes.values()])

        return [te.compute(found.store.buffer.shape, summed, names[0])]

    return Alternative((found.store.buffer,), inputs, compute)


def _is_product(found: Reduction, factors: Sequence[_Factor]) -> bool:
    """Whether terms of both factors are in dimensions of their own, where pairs of them can lie
    side by side, and so many results share each element that it pays to make it ahead. What is read
    in windows keeps the order of its dimensions: the last one is that of the terms."""
    sizes = {**found.spatial, **found.reduced}
    units = {v: Const(0, dtype.INDEX) for v, size in sizes.items() if int_value(size) == 1}
    read = [plain_indices(substitute(factor.load, units)) for factor in factors]
    places = [[*load.indices] for load in read if isinstance(load, Load)]
    plain = [{n for n in at if isinstance(n, Var)} for at in places]
    terms = plain[0] & plain[1] & set(found.reduced)
    for at in places if terms else ():  # a single number has no dimensions
        if at[-1] not in terms and not all(isinstance(n, (Var, Const)) for n in at):
            return False
        used = frozenset[Var]().union(*map(variables, at))
        shared = (int_value(size) for v, size in found.spatial.items() if v not in used)
        if prod(SYMBOLIC if size is None else size for size in shared) < SHARED:
            return False
    return bool(terms)


def _factor(e: Expr, what: str) -> _Factor:
    """A factor that is made of one element and has 16 bits; Mismatch for others."""
    read = list(dict.fromkeys(loads(e)))
    require(len(read) == 1 and dtype.is_int(read[0].dtype), f"{what} is of no single integer")
    (load,) = read
    alone = map_loads(e, lambda n: Const(0, n.dtype), {})
    moves = any(index.has_loads for index in load.indices) or variables(alone)
    require(not moves, f"{what} is another function of each element")
    interval, (low, high) = Intervals().of(e), dtype.int_limits(SHORT)
    fits = interval is not None and low <= interval[0] and interval[1] <= high
    require(fits, f"{what} may need more than 16 bits")
    return _Factor(e, load)


def _examples(_: str) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    shapes = {"a": (10, 9), "b": (9, 8), "w": (3, 9, 8)}
    kinds = {"a": "uint8", "b": "int8", "w": "int16"}
    a, b, w = (te.placeholder(shapes[name], kinds[name], name=name) for name in shapes)
    k, r = te.reduce_axis(9, name="k"), te.reduce_axis(3, name="r")
    product = te.compute(
        (10, 8), lambda i, j: te.sum((a[i, k].astype(SUM) - 3) * b[k, j].astype(SUM), axis=k), "y"
    )
    windows = te.compute(
        (8, 8),
        lambda i, j: te.sum(a[i + r, k].astype(SUM) * w[r, k, j].astype(SUM), axis=[r, k]), "y",
    )  # fmt: skip
    inputs = ([a, b, product], [a, w, windows])
    return [(te.create_prim_func(tensors), "y") for tensors in inputs]


ABOUT = "sums of products of small integers, both factors as int16, ahead"
SHORT_FACTORS = of_reductions("short_factors", ABOUT, False, _recognise, _examples, kinds=("cpu",))
