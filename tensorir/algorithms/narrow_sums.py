"""Sums of small integers in a type that is as narrow as they are: a vector has more of them.

Counts of what holds are written in 64 bits, and sums of bytes in 32, to be safe. Where bounds of
the terms say that no sum leaves a narrower type, whatever part of it was added, it is the same
number there: twice or more as many in a vector, and fewer conversions on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorir import dtype
from tensorir.algorithms.algorithm import Alternative
from tensorir.algorithms.recognise import Reduction, inputs_of, of_reductions, reduction_of, require
from tensorir.algorithms.tuples import Row
from tensorir.expr import Cast, Expr, Var, cast, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.intervals import Intervals
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.visit import loads

NARROW = ("uint8", "int8", "uint16", "int16", "int32")
"""The types of sums, narrower ones first."""


def _recognise(func: PrimFunc, block: Block, rounds: bool) -> Alternative:
    found = reduction_of(block, rounds)
    kind, goal = found.term.dtype, _goal(found)
    wide = f"sums of block {block.name!r} need all bits that they have, or those of what they read"
    require(goal is not None and dtype.bits(goal) < dtype.bits(kind), wide)
    term = cast(goal or kind, found.term)
    terms = Row(found.own, found.reduced, found.store.buffer.shape).over(term)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        from tensorir import te

        def summed(*i: Var) -> Expr:
            (term,), axes = terms.at(i, given)
            return te.sum(term, axis=axes)

        sums = te.compute(terms.row.shape, summed, f"{names[0]}_narrow")
        return [te.compute(terms.row.shape, lambda *i: Cast(kind, sums[i]), names[0])]

    return Alternative((found.store.buffer,), inputs_of(found.term), compute)


def _goal(found: Reduction) -> str | None:
    """The narrowest type that holds all sums of some of the terms and what these read; None for no
    sum of integers."""
    term, counts = found.term, [int_value(extent) for extent in found.reduced.values()]
    if found.op != "+" or not dtype.is_int(term.dtype) or None in counts:
        return None
    inside = term.a if isinstance(term, Cast) and dtype.is_int(term.a.dtype) else term
    ends = Intervals().of(term) or Intervals().of(inside)
    if ends is None or not (bits := [dtype.bits(load.dtype) for load in loads(term)]):
        return None
    count = prod(n or 0 for n in counts)
    if count < 2:
        return None
    low, high = min(0, ends[0]) * count, max(0, ends[1]) * count
    limits = ((kind, dtype.int_limits(kind)) for kind in NARROW if dtype.bits(kind) >= max(bits))
    return next((kind for kind, (least, most) in limits if least <= low and high <= most), None)


def _examples(_: str) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    a, b = (te.placeholder(shape, "uint8", name=n) for n, shape in (("a", (5, 9)), ("b", (9, 7))))
    x = te.placeholder((5, 9), name="x")
    k, r = te.reduce_axis(9, name="k"), te.reduce_axis(4, name="r")
    alike = te.compute(
        (5, 7), lambda i, j: te.sum((a[i, k] == b[k, j]).astype("int32"), axis=k), "y"
    )
    windows = te.compute((5, 6), lambda i, j: te.sum(a[i, j + r].astype("int64"), axis=r), "y")
    apart = te.compute(
        (5, 7),
        lambda i, j: te.sum(a[i, k].astype("int32") - b[k, j].astype("int32"), axis=k), "y",
    )  # fmt: skip
    above = te.compute((5,), lambda i: te.sum(te.if_then_else(x[i, k] > 0.0, 1, 0), axis=k), "y")
    inputs = ([a, b, alike], [a, windows], [a, b, apart], [x, above])
    return [(te.create_prim_func(tensors), "y") for tensors in inputs]


ABOUT = "a sum of small integers in the narrowest type that holds it"
NARROW_SUMS = of_reductions("narrow_sums", ABOUT, False, _recognise, _examples, kinds=("cpu",))
