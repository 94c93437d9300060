"""One form for all ways of writing a contraction: neighbours in every access are one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

from schedule.library.contraction.axes import A, Axis, Contraction

Pair = Callable[[Contraction, int, int], bool]
"""Something about two axes of a contraction."""


def merged_axes(c: Contraction, apart: Pair | None = None) -> Contraction:
    """Merge axes that are one: wherever the outer one moves, it does so by all of the inner one.

    apart  those that stay two all the same, an outer and an inner one
    """
    while True:
        pairs = permutations(range(len(c.axes)), 2)
        one = next((pair for pair in pairs if _are_one(c, *pair, apart)), None)
        if one is None:
            return c
        c = _merge(c, *one)


def sorted_axes(c: Contraction) -> Contraction:
    """Spatial axes by falling stride in the result, then those summed over, largest strides first.

    Operands are sorted by their strides. What is equal stays in the order of the definition.
    """

    def far(stride: int | None) -> int:
        return 1 << 62 if stride is None else stride

    def key(n: int) -> tuple[object, ...]:
        steps = sorted((far(o.strides[n]) for o in c.operands), reverse=True)
        if c.axes[n].reduce:
            return (1, 0, [-step for step in steps])
        return (0, -far(c.result.strides[n]), [-step for step in steps])

    order = sorted(range(len(c.axes)), key=key)
    c = ordered_axes(c, order)
    rows = [[far(step) for step in o.strides] for o in c.operands]
    places = sorted(range(len(rows)), key=rows.__getitem__)
    operands = tuple(c.operands[n] for n in places)

    def moved(reads: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(map(places.index, reads)))

    products = tuple(replace(p, reads=tuple(map(moved, p.reads))) for p in c.products)
    expressions = tuple(replace(e, reads=moved(e.reads)) for e in c.expressions)
    return replace(c, operands=operands, products=products, expressions=expressions)


def one_is_window(c: Contraction, outer: int, inner: int) -> bool:
    """Whether one of two axes alone is a window, as taps beside channels last in memory are. Not so
    the parts of one index, of which the outer one steps over all taps."""
    if c.is_window(outer) == c.is_window(inner):
        return False
    rows = [row for o in c.operands for row in o.dims if row[inner]]
    return c.is_window(outer) or not all(row[outer] for row in rows)


def move_two_indices(c: Contraction, outer: int, inner: int) -> bool:
    """Whether two axes are no parts of one index: an operand has one that a single one moves."""
    return any((row[outer] == 0) != (row[inner] == 0) for o in c.operands for row in o.dims)


def _are_one(c: Contraction, outer: int, inner: int, apart: Pair | None) -> bool:
    a, b = c.axes[outer], c.axes[inner]
    extent = b.extent
    if a.reduce != b.reduce or extent is None or a.extent is None:
        return False
    if a.reduce and c.written.index(outer) + 1 != c.written.index(inner):
        return False  # as one axis, they would be summed in another order
    rows = [*(access.strides for access in (*c.operands, c.result)), *c.numbers]
    steps = [(row[outer], row[inner]) for row in rows]
    one = any(far for far, _ in steps) and all(
        far is not None and near is not None and far == near * extent for far, near in steps
    )
    return one and not (apart is not None and apart(c, outer, inner))


def _merge(c: Contraction, outer: int, inner: int) -> Contraction:
    """One axis in place of the inner one of two; the outer one goes."""
    joined = Axis(c.axes[outer].digits + c.axes[inner].digits, c.axes[inner].reduce)
    extent = c.axes[inner].extent
    axes = [joined if n == inner else axis for n, axis in enumerate(c.axes)]
    places = range(len(axes))
    order = [n for n in places if n != outer]

    def shift(access: A) -> A:
        dims = tuple(
            tuple(_as_one(row[outer], row[n], extent) if n == inner else row[n] for n in places)
            for row in access.dims
        )
        return replace(access, dims=dims)

    c = replace(
        c, axes=tuple(axes), operands=tuple(shift(o) for o in c.operands), sums=shift(c.sums),
        result=shift(c.result),
    )  # fmt: skip
    return ordered_axes(c, order)


def _as_one(far: int | None, near: int | None, extent: int | None) -> int | None:
    """How far two axes move an index as one: by steps of one size, where that of the outer one is
    all steps of the inner one, or only one of them does."""
    if far == 0:
        return near
    return near if None not in (far, near, extent) and far == (near or 0) * (extent or 0) else None


def ordered_axes(c: Contraction, order: Sequence[int]) -> Contraction:
    """The axes of these positions, in this order; others, which have one value, go."""
    c = c.with_steps(lambda row: tuple([row[n] for n in order]))
    own = [frozenset(order.index(n) for n in o.own if n in order) for o in c.operands]
    written = tuple(order.index(n) for n in c.written if n in order)
    operands = tuple(replace(o, own=axes) for o, axes in zip(c.operands, own))
    return replace(c, axes=tuple(c.axes[n] for n in order), written=written, operands=operands)
