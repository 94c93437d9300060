"""Sums of products of small integers, with both factors in the types and in the order of the dot
products that processors have: each term of int32 takes a product and a sum of its own where there
is none. What multiplies pairs of int16 and adds both products to an int32 is one instruction of
every x86 (vpmaddwd), and what does so with four bytes is one of some (vpdpbusd).

The products are the same numbers, and sums of int32 wrap alike in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tensorir import dtype
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.dots.dot_order import dot_order
from tensorir.algorithms.recognise import inputs_of, of_reductions, reduction_of, require
from tensorir.expr import BinOp, Cast, Const, Expr, Load, Var, cast
from tensorir.func import PrimFunc
from tensorir.passes.facts.intervals import Interval, Intervals
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.tensorize.tensor_intrin import known_intrins
from tensorir.visit import loads, map_loads, variables

SUM = "int32"
PAIRS = (("int16", "int16"),)
BYTES = (("uint8", "int8"), ("int8", "int8"))
"""The types of both factors of dot products, the first one that whose elements rows share."""


@dataclass(frozen=True)
class _Factor:
    """A factor, the only element that it is made of, and the least and the largest value."""

    value: Expr
    load: Load
    ends: Interval

    def is_made(self, kind: str) -> bool:
        """Whether it is an element of that type as it is."""
        return self.value is Cast(SUM, self.load) and self.load.dtype == kind

    def fits(self, kind: str) -> bool:
        low, high = dtype.int_limits(kind)
        return low <= self.ends[0] and self.ends[1] <= high

    def of(self, element: Expr, kind: str) -> Expr:
        """What another element makes, in fewer bits."""
        value = self.value.a if isinstance(self.value, Cast) else self.value
        return cast(kind, map_loads(value, lambda _: element, {}))


def _recognise(
    func: PrimFunc, block: Block, rounds: bool, pairs: Sequence[tuple[str, str]]
) -> Alternative:
    found, what = reduction_of(block, rounds), f"block {block.name!r}"
    term, bits = found.term, dtype.bits(pairs[0][0])
    none = f"{what} sums no products of {SUM}"
    require(found.op == "+" and isinstance(term, BinOp) and term.op == "*", none)
    assert isinstance(term, BinOp)
    require(term.dtype == SUM, none)
    factors = [_factor(e, f"a factor of {what}") for e in (term.a, term.b)]
    wide = f"a factor of {what} may need more than {bits} bits"
    require(any(_fit(factors, pair) or _fit(factors, pair[::-1]) for pair in pairs), wide)
    order = dot_order(found, [f.load for f in factors], 32 // bits, what)
    turns = (1, -1) if order.first is None else (-1,) if order.first else (1,)
    kinds = next((k for pair in pairs for n in turns if _fit(factors, k := pair[::n])), None)
    require(kinds is not None, wide)
    assert kinds is not None
    stay = [f.is_made(k) and each.in_place for f, k, each in zip(factors, kinds, order.operands)]
    require(not all(stay), f"factors of {what} are {' and '.join(dict.fromkeys(kinds))} in order")
    inputs = inputs_of(term)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        tensors, made = dict(zip(inputs, given)), list[Tensor]()
        for n, (factor, kind) in enumerate(zip(factors, kinds)):
            source, of = tensors[factor.load.buffer], partial(factor.of, kind=kind)
            made.append(source if stay[n] else order.copied(n, source, of, f"{names[0]}_{n}"))

        def product(values: Mapping[Var, Expr]) -> Expr:
            a, b = (cast(SUM, t[each.at(values)]) for t, each in zip(made, order.operands))
            return a * b

        return [order.summed(product, names[0])]

    return Alternative((found.store.buffer,), inputs, compute)


def _fit(factors: Sequence[_Factor], kinds: Sequence[str]) -> bool:
    return all(factor.fits(kind) for factor, kind in zip(factors, kinds))


def _factor(e: Expr, what: str) -> _Factor:
    """A factor that is made of one element; Mismatch for others."""
    read = list(dict.fromkeys(loads(e)))
    require(len(read) == 1 and dtype.is_int(read[0].dtype), f"{what} is of no single integer")
    (load,) = read
    alone = map_loads(e, lambda n: Const(0, n.dtype), {})
    moves = any(index.has_loads for index in load.indices) or variables(alone)
    require(not moves, f"{what} is another function of each element")
    ends = Intervals().of(e)
    require(ends is not None, f"{what} may wrap")
    assert ends is not None
    return _Factor(e, load, ends)


def _of(name: str, pairs: Sequence[tuple[str, str]]) -> Algorithm:
    bits = dtype.bits(pairs[0][0])
    about = f"sums of products of small integers, both factors in {bits} bits, terms last, ahead"
    recognise = partial(_recognise, pairs=pairs)
    examples = partial(_examples, pairs=pairs)
    found = of_reductions(name, about, False, recognise, examples, kinds=("cpu",))
    return replace(found, needs=partial(_has_products, pairs=pairs))


def _has_products(features: Collection[str], pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether a target with `features` has dot products of these types, and no products of tiles,
    which get their operands in order by copies of whole windows."""
    wanted = {(*pair, SUM) for pair in pairs}
    there = [each for each in known_intrins().values() if each.runs_on(features)]
    found = [each for each in there if tuple(p.dtype for p in each.func.params) in wanted]
    return bool(found) and not any(each.tiles for each in found)


def _examples(_: str, pairs: Sequence[tuple[str, str]]) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    shapes = {"a": (10, 9), "b": (9, 8), "x": (6, 10), "w": (16, 3, 3)}
    kinds = {"a": "uint8", "b": "int8", "x": "uint8", "w": pairs[0][1]}
    a, b, x, w = (te.placeholder(shapes[name], kinds[name], name=name) for name in shapes)
    k, c, r = te.reduce_axis(9, name="k"), te.reduce_axis(3, name="c"), te.reduce_axis(3, name="r")
    product = te.compute(
        (10, 8),
        lambda i, j: te.sum((a[i, k].astype(SUM) % 64 - 3) * b[k, j].astype(SUM), axis=k), "y",
    )  # fmt: skip
    groups = te.compute(
        (16, 8),
        lambda j, i: te.sum(
            x[j // 8 * 3 + c, i + r].astype(SUM) * w[j, c, r].astype(SUM), axis=[c, r]
        ),
        "y",
    )
    inputs = ([a, b, product], [x, w, groups])
    return [(te.create_prim_func(tensors), "y") for tensors in inputs]


SHORT_FACTORS, BYTE_FACTORS = _of("short_factors", PAIRS), _of("byte_factors", BYTES)
"""Other algorithms for what a block computes, with the same values in exact arithmetic."""
