"""Random tensor expressions, as no operator has them: any indices, conditions, combiners and types.

Where `networks.py` draws operators that have a name, this draws what a user may write instead: each
stage is a te.compute or a te.scan whose reads are moved, spread, folded, clipped or taken from
memory, over loops that may end where others, the data or the caller say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from tensorir import int_value, te

sys.path.insert(0, str(Path(__file__).parent))
from draws import Draw  # noqa: E402
from invented_terms import (  # noqa: E402
    ELEMENTS,
    FLOATS,
    RELATIONS,
    SIZES,
    WHOLE,
    Index,
    Invented,
    condition,
    float_term,
    int_term,
    places,
    sizes_of,
    whole_term,
    within,
)
from workloads import Workload  # noqa: E402

TERMS = 1 << 18
"""Of all elements of a stage together."""

def _loops(n: Invented, axes: Sequence[Any], shape: Sequence[Any]) -> list[Index]:
    loops = []
    for axis, size in zip(axes, shape):
        top = sizes_of(n, [size])[0]
        loops.append(Index(axis, 0, top - 1, size if int_value(size) is None else None))
    return loops


def _out(n: Invented, ranks: list[int]) -> tuple[Any, ...]:
    """A drawn shape, that of an earlier tensor, or one whose first size is a symbol."""
    if n.tensors and n.chance(3):
        return tuple(n.d.pick(n.tensors).shape)
    shape: tuple[Any, ...] = n.shape(ranks)
    if shape and n.chance(5):
        n.d.sizes.setdefault("n", shape[0])
        first = n.d.pick(RELATIONS)(te.var("n"))
        return (first, *shape[1:]) if prod(sizes_of(n, [first, *shape[1:]])) <= ELEMENTS else shape
    return shape


def _term(n: Invented, loops: Sequence[Index], kind: str) -> Any:
    if kind not in WHOLE:
        return float_term(n, loops, kind)
    return int_term(n, loops) if kind == "int32" and n.d.flag() else whole_term(n, loops, kind)


def mapped(n: Invented) -> Any:
    shape = _out(n, [1, 2, 2, 3, 3, 4])
    kind = n.d.pick([*FLOATS, "int32", *[n.d.pick(WHOLE)] * 3])

    def value(*axes: Any) -> Any:
        return _term(n, _loops(n, axes, shape), kind)

    return te.compute(shape, value, name=f"t{len(n.tensors)}")


def _end(n: Invented, loops: Sequence[Index], size: int) -> Any:
    """The extent of a reduction, or where it ends: as another loop, an argument or data say."""
    outer = [v for v in loops if v.size is None]
    if outer and n.chance(8):
        v = n.d.pick(outer).value
        return n.d.pick([te.min(v + 1, size), (te.max(te.min(v - 1, size), 0), size)])
    if "end" not in n.d.sizes and n.chance(16):
        return te.min(n.d.number("end", [1, 2, 5, 13, 70]), size)
    if outer and n.chance(16):
        v = n.d.pick(outer)
        table = n.param((v.high + 1,), "int32")
        return te.clip(table[v.value].astype("int64"), 0, size)
    known = n.d.sizes.get("n")
    if known is not None and n.chance(4):
        return te.min(n.d.pick(RELATIONS)(te.var("n")), size)
    return size


def reduced(n: Invented) -> Any:
    shape = _out(n, [0, 1, 1, 2, 2, 2, 3, 4])
    elements = prod(sizes_of(n, shape))
    kind = n.d.pick([*FLOATS, *FLOATS, "int32", "int32", *[n.d.pick(WHOLE)] * 3])
    name = n.d.pick(["sum"] * 8 + ["max", "min", "argmax", "argmin", "pair", "prod"])
    sizes: tuple[int, ...] = ()
    for _ in range(n.d.pick([1, 1, 2, 2, 3])):
        left = TERMS // max(elements * prod(sizes), 1)
        sizes += (n.d.pick([s for s in SIZES if s <= left] or [1]),)
    if name == "prod":
        sizes = (min(sizes[0], 4),)
    if name in ("argmax", "argmin", "pair"):  # which the oracle adds up one by one
        sizes = sizes[:1]
    def value(*axes: Any) -> Any:
        loops = _loops(n, axes, shape)
        ks = [
            te.reduce_axis(_end(n, loops, size) if name == "sum" else size, name=f"k{at}")
            for at, size in enumerate(sizes)
        ]
        loops += [Index(k, 0, size - 1) for k, size in zip(ks, sizes)]
        term = _term(n, loops, kind)
        if name == "pair":
            return PAIR((term, te.maximum(term, te.const(0, kind)) - term), axis=ks)
        if name != "sum":  # of no terms only a sum has a value
            return getattr(te, name)(term, axis=ks)
        return te.sum(term, axis=ks, where=condition(n, loops) if n.chance(6) else None)

    return te.compute(shape, value, name=f"t{len(n.tensors)}")


PAIR = te.comm_reducer(
    lambda x, y: (x[0] + y[0], te.maximum(x[1], y[1])),
    lambda s, t: (te.const(0, s), te.min_value(t)),
    name="sum_max",
)


def scanned(n: Invented) -> Any:
    """A recurrence: each row of those before it, with neighbours or sums of them."""
    steps, columns, back = n.d.pick([2, 3, 5, 8]), n.d.pick(SIZES), n.d.pick([1, 1, 2])
    back = min(back, steps)
    kind = n.d.pick(["float32"] * 3 + ["float64"])
    shape = (steps, columns)
    state = te.placeholder(shape, kind, name=f"s{len(n.tensors)}")

    def begin(*axes: Any) -> Any:
        return float_term(n, _loops(n, axes, (back, columns)), kind)

    first = te.compute((back, columns), begin, name=f"first{len(n.tensors)}")

    def before(t: Any, column: Any) -> Any:
        at, asked = within(n, column, columns)
        value = state[t - n.d.pick(list(range(1, back + 1))), at]
        return te.if_then_else(te.all(*asked), value, te.const(0, kind)) if asked else value

    mixed = None
    if n.chance(3):
        weights = n.param((columns, columns), kind)

        def mix(t: Any, j: Any) -> Any:
            k = te.reduce_axis(columns, name="k")
            return te.sum(state[t - 1, k] * weights[k, j] * te.const(1 / 64, kind), axis=k)

        mixed = te.compute(shape, mix, name=f"mix{len(n.tensors)}")

    def step(t: Any, j: Any) -> Any:
        j = Index(j, 0, columns - 1)
        value = before(t, j) if mixed is None else mixed[t, j.value]
        if n.d.flag():
            other = before(t, places(n, [j]))
            value = n.d.pick([value + other, te.maximum(value, other), value - other])
        given = float_term(n, [Index(t, 0, steps - 1), j], kind)
        return n.d.pick([value * 0.5 + given, te.maximum(value, given), te.tanh(value) + given])

    update = te.compute(shape, step, name=f"step{len(n.tensors)}")
    return te.scan(first, update, state, name=f"t{len(n.tensors)}")


KINDS = (mapped, mapped, reduced, reduced, reduced, scanned)


def draw(pick: Callable[[list[Any]], Any]) -> Workload:
    """A program of one to four stages, with one or several outputs."""
    n = Invented(Draw(pick))
    outputs: list[Any] = []
    for _ in range(pick([1, 1, 2, 2, 3, 4])):
        made = pick(list(KINDS))(n)
        parts = made if isinstance(made, tuple) else (made,)
        n.tensors.extend(parts)
        if len(parts) > 1 or pick([True, False, False, False]):
            outputs.extend(parts)
    if not any(n.tensors[-1] is out for out in outputs):
        outputs.append(n.tensors[-1])
    if "n" in n.d.sizes and not any(te.var("n") is s for p in n.params for s in p.shape):
        n.param((te.var("n"),))  # a call has to tell the size
    arguments = [*n.params, *outputs]
    numbers = te.numbers_needed(arguments)
    return Workload(te.create_prim_func([*numbers, *arguments], name="invented"), n.d.sizes)
