"""Rewritings of stages: a reduction as two, an operand through a stage that turns it, elementwise
stages where they are read. And of what stands in a stage: arrays of one dimension, conditions in
place of minima and maxima."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from benchmarks.general.axes import halves, splitting
from benchmarks.general.form import Form
from benchmarks.general.nests import Axis, Edit, Indices, Nest, edited, nests_of, of_size
from tensorir import (
    BinOp,
    Buffer,
    Expr,
    IterKind,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
    const,
    substitute,
)
from tensorir.names import Names
from tensorir.visit import map_exprs, map_loads, rebuild


def staged(func: PrimFunc) -> Iterator[Form]:
    """The longest reduction in two stages, the first of which reduces parts of an axis; the largest
    input through a stage that turns it, which its readers undo; all stages inlined that one other
    reads, element by element."""
    nests = nests_of(func)
    if nests is None:
        return
    ways = {"reduced in parts": _in_parts, "input turned twice": _turned, "inlined": _inlined}
    for name, way in ways.items():
        changed = way(func, nests)
        if changed is not None:
            yield Form("staged", name, changed)


def _with(func: PrimFunc, nests: Sequence[Nest], *buffers: Buffer) -> PrimFunc:
    kept = {s.buffer for nest in nests for s in nest.stores}
    inner = tuple(b for b in (*func.buffers, *buffers) if b in kept)
    return edited(replace(func, buffers=inner), nests, Edit())


def _in_parts(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    found = [(n, a) for n in nests if _combines(n) for a in n.axes if a.reduces and splitting(a)]
    if not found:
        return None
    nest, axis = max(found, key=lambda pair: pair[1].size or 0)
    names = Names(b.name for b in (*func.params, *func.buffers))
    outer, inner = halves(axis, splitting(axis) or 1)
    outer = replace(outer, kind=IterKind.SPATIAL)
    spatial = [a for a in nest.axes if not a.reduces]
    (store,), init = nest.stores, nest.init
    assert isinstance(store.value, BinOp) and isinstance(init, Store)
    shape = (*(a.extent for a in spatial), outer.extent)
    held = Buffer(names.unique("held"), shape, store.buffer.dtype)
    at = (*(a.var for a in spatial), outer.var)
    term = substitute(store.value.b, {axis.var: outer.var * of_size(inner.size or 1) + inner.var})
    first = Nest(
        f"{nest.name}_parts", (*spatial, outer, inner, *_others(nest, axis)),
        Store(held, at, BinOp(store.value.op, Load(held, at), term)), Store(held, at, init.value),
    )  # fmt: skip
    again = {a.var: Var(a.var.name, a.var.dtype) for a in (*spatial, outer)}
    read = Load(held, tuple(again[a.var] for a in (*spatial, outer)))
    where = tuple(substitute(i, again) for i in store.indices)
    whole = BinOp(store.value.op, Load(store.buffer, where), read)
    axes = (*(replace(a, var=again[a.var]) for a in spatial),
            replace(outer, var=again[outer.var], kind=IterKind.REDUCE))  # fmt: skip
    second = Nest(
        nest.name, axes, Store(store.buffer, where, whole), Store(store.buffer, where, init.value)
    )
    changed = [m for each in nests for m in ((first, second) if each is nest else (each,))]
    return _with(func, changed, held)


def _combines(nest: Nest) -> bool:
    """Whether a nest combines what it stores at one place with terms by an operator."""
    if not nest.is_reduction or len(nest.stores) != 1 or not isinstance(nest.init, Store):
        return False
    (store,) = nest.stores
    value = store.value
    return isinstance(value, BinOp) and value.a is Load(store.buffer, store.indices)


def _others(nest: Nest, axis: Axis) -> Iterator[Axis]:
    return (a for a in nest.axes if a.reduces and a is not axis)


def _turned(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    wide = [p for p in func.inputs if p.ndim > 1 and p.const_shape is not None]
    if not wide:
        return None
    source = max(wide, key=lambda p: prod(p.const_shape or ()))
    names = Names(b.name for b in (*func.params, *func.buffers))
    taken = Names(n.name for n in nests)
    made = Buffer(names.unique(f"{source.name}_turned"), source.shape[::-1], source.dtype)
    axes = tuple(
        Axis(Var(f"v{d}", "int64"), extent, IterKind.SPATIAL, f"d{d}")
        for d, extent in enumerate(made.shape)
    )
    at = tuple(a.var for a in axes)
    turning = Nest(taken.unique(made.name), axes, Store(made, at, Load(source, at[::-1])), None)

    def moved(load: Load) -> Expr:
        return Load(made, load.indices[::-1]) if load.buffer is source else load

    return _with(func, [turning, *(_changed(n, lambda e: map_loads(e, moved, {})) for n in nests)],
                 made)  # fmt: skip


def _changed(nest: Nest, change: Callable[[Expr], Expr]) -> Nest:
    return replace(nest, body=map_exprs(nest.body, change))


def _inlined(func: PrimFunc, nests: Sequence[Nest]) -> PrimFunc | None:
    left = list(nests)
    for nest in nests:
        readers = [n for n in left if any(e.buffer is _made(nest) for e in n.loads)]
        if _made(nest) not in func.buffers or len(readers) != 1 or nest.is_reduction:
            continue
        reads = [e for e in readers[0].loads if e.buffer is _made(nest)]
        current = next(n for n in left if n.name == nest.name)
        (store,) = current.stores
        own = [current.axis(index) for index in store.indices]
        if len(reads) != 1 or None in own or len(own) != len(current.axes):
            continue

        def read(load: Load, store: Store = store) -> Expr:
            if load.buffer is not store.buffer:
                return load
            return substitute(store.value, dict(zip(_variables(store), load.indices)))

        left = [_changed(n, lambda e: map_loads(e, read, {})) if n is readers[0] else n
                for n in left if n is not current]  # fmt: skip
    return _with(func, left) if len(left) < len(nests) else None


def _made(nest: Nest) -> Buffer | None:
    return nest.stores[0].buffer if len(nest.stores) == 1 else None


def _variables(store: Store) -> list[Var]:
    return [index for index in store.indices if isinstance(index, Var)]


def spelled(func: PrimFunc) -> Iterator[Form]:
    """All arrays of the function with one dimension; conditions in place of minima and maxima."""
    nests = nests_of(func)
    if nests is None:
        return
    flat = {p: (p.with_shape((_count(p),)), _place(p)) for p in func.params if _is_known(p)}
    if any(p.ndim > 1 for p in flat):
        yield Form("spelled", "one dimension", edited(func, nests, Edit(buffers=flat)))
    asked = [_changed(n, lambda e, n=n: _asked(e, n)) for n in nests]
    if any(new.body is not old.body for new, old in zip(asked, nests)):
        yield Form("spelled", "conditions for maxima", edited(func, asked, Edit()))


def _is_known(param: Buffer) -> bool:
    return param.const_shape is not None and param.ndim > 0


def _count(param: Buffer) -> Expr:
    return of_size(prod(param.const_shape or ()))


def _place(param: Buffer) -> Callable[[Indices], Indices]:
    def flat(indices: Indices) -> Indices:
        place: Expr = const(0, "int64")
        for index, extent in zip(indices, param.const_shape or ()):
            place = place * extent + index
        return (place,)

    return flat


def _asked(e: Expr, nest: Nest) -> Expr:
    """Of a reduction the operator that combines its terms stays."""
    parts = tuple(_asked(x, nest) for x in e.operands) if not isinstance(e, Load) else ()
    made = rebuild(e, parts) if parts else e
    combines = nest.is_reduction and any(s.value is e for s in nest.stores)
    if isinstance(made, BinOp) and made.op in ("max", "min") and not combines:
        first = made.a > made.b if made.op == "max" else made.a < made.b
        return Select(first, made.a, made.b)
    return made
