"""transform_layout: keep an intermediate in another order of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedule.analysis.uses import accesses, plain_store, writers, written
from schedule.checks.buffer_hints import require_unmarked
from schedule.checks.verified import require_verified
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import axis_variables, pick, place_beside, top_statement
from schedule.rewrite.index_map import Layout, index_map_text, layout_of
from schedule.rewrite.placement import beyond_extents, fresh_loops
from schedule.rewrite.private import home_of, require_covered
from schedule.rewrite.relayout import pad_constant, relaid, whole_copy
from schedule.state import State, nest, replace_func
from tensorir import Block, Buffer, Const, For, ForKind, Store, Var

UNSET = "unset"
"""The `pad_value` that is none."""


@primitive
def transform_layout(
    state: State,
    block: str,
    buffer: str | int,
    index_map: str | Callable[..., Any],
    pad_value: float | int | bool | str | None = None,
) -> tuple[State, None]:
    """Move the element at every index of an intermediate buffer to the index that a map gives it.

    `index_map` is a lambda or its text. `buffer` is a name, or the position among the buffers
    that `block` uses. A block that wrote the elements at its own variables is expressed in the
    new indices, so that compute_at moves it like before. Where the new shape has places without
    an element, `pad_value` is written to them ("inf", "-inf" and "nan" are written as strings);
    "unset" leaves them as they are, which nothing reads.
    Parts of indices may be XORed, as in "i, j: i, j ^ i % 8", which puts elements of a column of
    shared memory in different banks: whole runs of a power of two change places.

    rewrite:  transform_layout("C", "T", "i, j: j // 4, i, j % 4")
        T = alloc(f32[8, 12])                 T = alloc(f32[3, 8, 4])
        for i, j in grid(8, 12):              for i, j in grid(8, 12):
            T[vi, vj] = A[vi, vj]       ->        T[v0, vi, v1] = A[vi, v0 * 4 + v1]
        for i, j in grid(8, 12):              for i, j in grid(8, 12):
            C[vi, vj] = T[vi, vj]                 C[vi, vj] = T[vj // 4, vi, vj % 4]

    requires:
        - `buffer` is an intermediate that the block uses
        - no block that uses it is annotated, and it is not marked otherwise (storage_align,
          swizzle)
        - its writers and its readers are in different nests; or all in one loop that writes, also
          in the new shape, a box around what is read in it, and no padding is written
        - the map is a function, or text such as "i, j: j, i" with distinct new names, whose results
          are integers made of its parameters
        - the map has one parameter per dimension, and gives integers from 0 on, with bounds
        - the map sends different elements to different places
        - without `pad_value`, every new place has an element
        - `pad_value` is a value of the type of the buffer
    """
    touched = tuple(dict.fromkeys(a.buffer for a in accesses(state.block(block))))
    old = pick(touched, buffer, block, "uses")
    _changeable(state, old, block)
    text = index_map if isinstance(index_map, str) else index_map_text(index_map)
    layout = layout_of(state, text, old, block)
    require(
        layout.exact or pad_value is not None,
        block,
        f"the new shape {_shape(layout)} has places that no element of {old.name!r} comes to",
        "give the pad_value to write there",
    )
    new = old.with_shape(layout.shape)
    value = None if pad_value in (None, UNSET) else pad_constant(pad_value, old.dtype, block)
    pad = None if layout.exact else value
    home = home_of(state, old, pad is not None, block)
    whole = state if pad is None else _padded(state, old, new, layout, pad)
    body = relaid(whole, whole.func.body, old, new, layout)
    buffers = tuple(new if b is old else b for b in whole.func.buffers)
    moved = State(replace_func(whole.func, body=body, buffers=buffers), whole)
    if home is not None:
        require_covered(moved, new, home, block)
    return require_verified(state, moved, block, "the new layout"), None


def _shape(layout: Layout) -> str:
    return f"[{', '.join(map(repr, layout.shape))}]"


def _changeable(state: State, old: Buffer, block: str) -> None:
    name = old.name
    require(
        old in state.func.buffers,
        block,
        f"{name!r} is a parameter of the function: callers know its layout",
        "cache_read or cache_write it, and transform the copy",
    )
    require_unmarked(state, old, block, "transform_layout")


def _padded(state: State, old: Buffer, new: Buffer, layout: Layout, pad: Const) -> State:
    """The state with the padding written, by the writer of the buffer if that can."""
    return _select_padding(state, old, new, layout, pad) or _fill(state, old, new, pad)


def _select_padding(
    state: State, old: Buffer, new: Buffer, layout: Layout, pad: Const
) -> State | None:
    """The state with the only writer of the buffer writing the padding too; None if it cannot."""
    names = writers(state, old)
    node = state.block(names[0])
    if len(names) != 1 or layout.inverse is None or not _writes_all(state, node, old):
        return None
    block = whole_copy(state, node, old, new, layout, pad)
    top = top_statement(state, node.name)
    path = (top,) if top is state.func.body else (state.func.body, top)
    loops, bound = fresh_loops(state.replace(path, None), block, {}, (), state.analyzer())
    return state.replace(path, nest(loops, bound))


def _writes_all(state: State, node: Block, old: Buffer) -> bool:
    """Whether a block in a plain nest of its own stores each element of the buffer, once."""
    store = plain_store(node)
    top = top_statement(state, node.name)
    path = state.block_path(node.name)
    around = path[path.index(top) : -1]
    plain = all(isinstance(s, For) and s.kind is ForKind.SERIAL for s in around)
    if store is None or node.is_reduction or not plain:
        return False
    loops = state.loops_around(node.name)
    analyzer = state.analyzer(loops)
    sizes = {it.var: it.extent for it in node.iters}
    whole = all(
        isinstance(v, Var) and sizes[v] is size for v, size in zip(store.indices, old.shape)
    )
    free = [it.binding for it in node.iters if isinstance(it.binding, Var)]
    bound = {loop.var: analyzer.simplify(loop.extent) for loop in loops}
    full = len(set(free)) == len(node.iters) and all(
        it.binding in bound and bound[it.binding] is it.extent  # type: ignore[index]
        for it in node.iters
    )
    alone = not any(loop.annotations for loop in loops) and len(written(node)) == 1
    only = all(a.is_write for a in accesses(node) if a.buffer is old)
    within = not beyond_extents(state, node) and len(store.indices) == len(node.iters)
    return whole and full and alone and only and within


def _fill(state: State, old: Buffer, new: Buffer, pad: Const) -> State:
    """The state with all of the buffer filled before its first writer."""
    iters = axis_variables(state, new.shape)
    store = Store(new, tuple(it.var for it in iters), pad)
    block = Block(state.fresh_block(f"{old.name}_pad"), iters, store)
    loops, bound = fresh_loops(state, block, {}, (), state.analyzer())
    first = top_statement(state, writers(state, old)[0])
    return place_beside(state, first, nest(loops, bound), before=True)
