"""Rewritings of axes: their order, one as two, two as one, and axes of extent 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.general.form import Form
from benchmarks.general.nests import (
    Axis,
    Edit,
    Indices,
    Nest,
    Remap,
    accesses,
    edited,
    nests_of,
    of_size,
    same,
    spans,
    unified,
    writer,
)
from tensorir import Buffer, Expr, IterKind, PrimFunc, Var
from tensorir.names import Names

FACTORS = (16, 8, 4, 2, 3, 5, 7)
"""Of the inner axis where one is split: the first that divides it into several."""


def permuted(func: PrimFunc) -> Iterator[Form]:
    """The axes of the first output in other orders, with what it is computed of, element by
    element, in the same order, or as it was."""
    nests, out = nests_of(func) or (), func.outputs[0]
    for name, order in _orders([s for s in out.const_shape or ()]).items():
        for along in (True, False):
            chain = _chain(nests, out, func) if along else [out]
            if along and len(chain) == 1:
                continue
            changed = _permuted(func, nests, chain, order)
            if changed is not None:
                orders = (order, *[None] * (len(func.outputs) - 1))
                said = f"permuted {name}" + (", intermediates too" if along else "")
                yield Form("permuted", said, changed, orders)


def _orders(shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Orders of axes that are different ones without those of extent 1."""
    n = len(shape)
    wide = [d for d, s in enumerate(shape) if s > 1]
    if len(wide) < 2:
        return {}
    rest = [d for d in range(n) if d != wide[0]]
    found: dict[str, tuple[int, ...]] = {
        "reversed": tuple(range(n))[::-1],
        "first last": (*rest, wide[0]),
        "last first": (wide[-1], *[d for d in range(n) if d != wide[-1]]),
    }
    seen, kept = set[tuple[int, ...]](), {}
    for name, order in found.items():
        key = tuple(d for d in order if d in wide)
        if key not in seen:
            seen.add(key)
            kept[name] = order
    return kept


def _chain(nests: Sequence[Nest], out: Buffer, func: PrimFunc) -> list[Buffer]:
    """A buffer and the intermediates that it is made of at the same place."""
    found = [out]
    for buffer in found:
        nest = writer(nests, buffer)
        place = next((s.indices for s in nest.stores if s.buffer is buffer), ()) if nest else ()
        for load in nest.loads if nest else ():
            if load.buffer in func.buffers and same(load.indices, place):
                found += [] if load.buffer in found else [load.buffer]
    return found


def _permuted(
    func: PrimFunc, nests: Sequence[Nest], chain: Sequence[Buffer], order: tuple[int, ...]
) -> PrimFunc | None:
    buffers, axes = {}, {}
    for buffer in chain:
        nest = writer(nests, buffer)
        store = next((s for s in nest.stores if s.buffer is buffer), None) if nest else None
        if nest is None or store is None:
            return None
        loops = [nest.axis(index) for index in store.indices]
        spatial = [axis for axis in nest.axes if not axis.reduces]
        if not same(loops, spatial) or len(nest.stores) > 1:
            return None
        reduce = [axis for axis in nest.axes if axis.reduces]
        axes[nest.name] = (*[spatial[d] for d in order], *reduce)
        shape = tuple(buffer.shape[d] for d in order)
        buffers[buffer] = (buffer.with_shape(shape), _by_order(order))
    return edited(func, nests, Edit(axes, buffers=buffers))


def _by_order(order: tuple[int, ...]) -> Remap:
    return lambda indices: tuple(indices[d] for d in order)


def reordered(func: PrimFunc) -> Iterator[Form]:
    """The reduce axes of every reduction in other orders."""
    nests = nests_of(func) or ()
    found: dict[str, dict[str, tuple[Axis, ...]]] = {"reversed": {}, "rotated": {}}
    for nest in nests:
        reduce = [axis for axis in nest.axes if axis.reduces]
        wide = [axis for axis in reduce if axis.size != 1]
        spatial = [axis for axis in nest.axes if not axis.reduces]
        if len(wide) > 1:
            found["reversed"][nest.name] = (*spatial, *reduce[::-1])
        if len(wide) > 2:
            found["rotated"][nest.name] = (*spatial, *reduce[1:], reduce[0])
    for name, axes in found.items():
        if axes:
            yield Form("reordered", f"reduce axes {name}", edited(func, nests, Edit(axes)))


def split(func: PrimFunc) -> Iterator[Form]:
    """The last wide axis of the output, the first one, and a reduce axis as two, with those of the
    intermediates that go with it; with those of the inputs too, or as they were."""
    nests = nests_of(func)
    if nests is None:
        return
    for name, start in _starts(func, nests).items():
        for whole in (False, True):
            form = _split(func, nests, start, whole)
            if form is not None:
                said = f"split {name}" + (", inputs too" if whole else "")
                yield Form("split", said, form)


def _starts(func: PrimFunc, nests: Sequence[Nest]) -> dict[str, tuple[Nest, Axis]]:
    """Axes to split, by what they are."""
    found: dict[str, tuple[Nest, Axis]] = {}
    made = writer(nests, func.outputs[0])
    wide = [axis for axis in made.axes if not axis.reduces and splitting(axis)] if made else []
    if made and wide:
        found["last"] = (made, wide[-1])
        if len(wide) > 1:
            found["first"] = (made, wide[0])
    reducing = [(n, a) for n in nests for a in n.axes if a.reduces and splitting(a)]
    if reducing:
        found["reduce"] = max(reducing, key=lambda pair: pair[1].size or 0)
    return found


def splitting(axis: Axis) -> int | None:
    size = axis.size or 0
    return next((f for f in FACTORS if size > f and size % f == 0), None)


def _split(
    func: PrimFunc, nests: Sequence[Nest], start: tuple[Nest, Axis], whole: bool
) -> PrimFunc | None:
    nest, axis = start
    factor = splitting(axis)
    assert factor is not None

    def among(buffer: Buffer) -> bool:
        return whole or buffer not in func.inputs

    dims: set[tuple[Buffer, int]] = set()
    variables = {(nest.name, axis.var)}
    for buffer, indices in accesses(nest):
        for d, index in enumerate(indices):
            if index is axis.var and among(buffer) and spans(nest, index, buffer, d):
                more = unified(nests, (buffer, d), among)
                dims, variables = dims | more[0], variables | more[1]
    if whole and not any(buffer in func.inputs for buffer, _ in dims):
        return None
    axes, values = {}, {}
    for each in nests:
        parts: list[Axis] = []
        becomes: dict[Var, Expr] = {}
        for a in each.axes:
            if (each.name, a.var) not in variables:
                parts.append(a)
                continue
            outer, inner = halves(a, factor)
            parts += [outer, inner]
            becomes[a.var] = outer.var * factor + inner.var
        if becomes:
            axes[each.name], values[each.name] = tuple(parts), becomes
    buffers = {}
    for buffer in {b for b, _ in dims}:
        at = {d for b, d in dims if b is buffer}
        buffers[buffer] = _split_buffer(buffer, at, factor)
    return edited(func, nests, Edit(axes, values, buffers))


def halves(axis: Axis, factor: int) -> tuple[Axis, Axis]:
    sizes = {"o": (axis.size or 0) // factor, "i": factor}
    made = [
        Axis(Var(axis.var.name + end, axis.var.dtype), of_size(n), axis.kind, axis.loop + end)
        for end, n in sizes.items()
    ]
    return made[0], made[1]


def _split_buffer(buffer: Buffer, at: set[int], factor: int) -> tuple[Buffer, Remap]:
    def both(parts: Sequence[Expr]) -> Indices:
        found: list[Expr] = []
        for d, e in enumerate(parts):
            found += [e // factor, e % factor] if d in at else [e]
        return tuple(found)

    shape: list[Expr] = []
    for d, extent in enumerate(buffer.shape):
        shape += [extent // factor, of_size(factor)] if d in at else [extent]
    return buffer.with_shape(tuple(shape)), both


def fused(func: PrimFunc) -> Iterator[Form]:
    """Two neighbouring axes of the output as one, and two reduce axes of a reduction."""
    nests = nests_of(func)
    if nests is None:
        return
    for name, changed in (("output", _fused_output(func, nests)), ("reduce", _fused(func, nests))):
        if changed is not None:
            yield Form("fused", f"fused {name}", changed)


def _fused_output(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    """The last two axes of the first output, and of what it is made of at the same place."""
    axes, values, buffers = {}, {}, {}
    for buffer in _chain(nests, func.outputs[0], func):
        nest = writer(nests, buffer)
        if nest is None or buffer.ndim < 2 or len(nest.stores) > 1:
            return None
        pair = [nest.axis(index) for index in nest.stores[0].indices[-2:]]
        first, second = pair
        if first is None or second is None or first is second or 1 in (first.size, second.size):
            return None
        axes[nest.name], values[nest.name] = _joined(nest, first, second)
        buffers[buffer] = _join_last(buffer)
    return edited(func, nests, Edit(axes, values, buffers))


def _join_last(buffer: Buffer) -> tuple[Buffer, Remap]:
    extent = buffer.shape[-1]
    shape = (*buffer.shape[:-2], buffer.shape[-2] * extent)
    return buffer.with_shape(shape), lambda i: (*i[:-2], i[-2] * extent + i[-1])


def _fused(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    axes, values = {}, {}
    for nest in nests:
        reduce = [axis for axis in nest.axes if axis.reduces and axis.size != 1]
        if len(reduce) > 1:
            axes[nest.name], values[nest.name] = _joined(nest, *reduce[-2:])
    return edited(func, nests, Edit(axes, values)) if axes else None


def _joined(nest: Nest, first: Axis, second: Axis) -> tuple[tuple[Axis, ...], dict[Var, Expr]]:
    """The axes with these two as one, and what the two are in terms of it."""
    var = Var(first.var.name + second.var.name, first.var.dtype)
    one = replace(first, var=var, extent=first.extent * second.extent,
                  loop=first.loop + second.loop)  # fmt: skip
    axes = tuple(one if axis is first else axis for axis in nest.axes if axis is not second)
    return axes, {first.var: var // second.extent, second.var: var % second.extent}


def units(func: PrimFunc) -> Iterator[Form]:
    """An axis of extent 1 more in all that there is, in the first or last place, or in all
    reductions; and none of those that there are."""
    nests = nests_of(func)
    if nests is None:
        return
    yield Form("unit", "unit first", _with_unit(func, nests, first=True))
    yield Form("unit", "unit last", _with_unit(func, nests, first=False))
    reducing = {n.name: (*n.axes, _unit(nests, IterKind.REDUCE)) for n in nests if n.is_reduction}
    if reducing:
        yield Form("unit", "unit reduce", edited(func, nests, Edit(reducing)))
    dropped = _without_units(func, nests)
    if dropped is not None:
        yield Form("unit", "units dropped", dropped)


def _unit(nests: Sequence[Nest], kind: IterKind) -> Axis:
    """An axis of extent 1; its variable is no other one's in any block."""
    taken = Names(name for n in nests for a in n.axes for name in (a.var.name, a.loop))
    return Axis(Var(taken.unique("vunit"), "int64"), of_size(1), kind, "unit")


def _with_unit(func: PrimFunc, nests: Sequence[Nest], first: bool) -> PrimFunc:
    unit, axes = _unit(nests, IterKind.SPATIAL), {}
    for nest in nests:
        spatial = [axis for axis in nest.axes if not axis.reduces]
        reduce = [axis for axis in nest.axes if axis.reduces]
        axes[nest.name] = (unit, *nest.axes) if first else (*spatial, unit, *reduce)

    def moved(buffer: Buffer) -> tuple[Buffer, Remap]:
        if first:
            return buffer.with_shape((unit.extent, *buffer.shape)), lambda i: (unit.var, *i)
        return buffer.with_shape((*buffer.shape, unit.extent)), lambda i: (*i, unit.var)

    buffers = {b: moved(b) for b in (*func.params, *func.buffers)}
    return edited(func, nests, Edit(axes, buffers=buffers))


def _without_units(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    axes, values, buffers = {}, {}, {}
    for nest in nests:
        wide = tuple(axis for axis in nest.axes if axis.size != 1)
        if nest.is_reduction and not any(axis.reduces for axis in wide):  # a sum has terms
            wide = (*wide, next(axis for axis in nest.axes if axis.reduces))
        if len(wide) < len(nest.axes) and wide:
            axes[nest.name] = wide
            values[nest.name] = {a.var: of_size(0) for a in nest.axes if a not in wide}
    for buffer in (*func.params, *func.buffers):
        kept = tuple(d for d, extent in enumerate(buffer.const_shape or ()) if extent != 1)
        if kept and len(kept) < buffer.ndim:
            shape = tuple(buffer.shape[d] for d in kept)
            buffers[buffer] = (buffer.with_shape(shape), _by_order(kept))
    return edited(func, nests, Edit(axes, values, buffers)) if axes and buffers else None
