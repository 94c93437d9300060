"""A program as a part of another one: sizes bound, and names that are not taken there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace as replace_fields

from tensorir.annotations import checked
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.parts import replace_buffers
from tensorir.stmt import Block, For, Let, Stmt, replace
from tensorir.visit import blocks, map_children, map_own_exprs, substitute, walk


def with_sizes(func: PrimFunc, sizes: Mapping[Var, Expr]) -> PrimFunc:
    """`func` with expressions of other sizes in the place of its own; what it defines itself is
    renamed where such a size has the name."""
    names = Names(v.name for size in sizes.values() for v in size.variables)
    buffers = {
        b: Buffer(names.unique(b.name), shape_with(b, sizes), b.dtype, b.scope)
        for b in (*func.params, *func.buffers)
    }
    loops = [names.unique(loop.name) for loop in loops_of(func.body)]
    kept = [block.name for block in blocks(func.body)]
    body = replace_buffers(with_names(func.body, sizes, loops, kept, names), buffers)
    params, inner = (tuple(buffers[b] for b in group) for group in (func.params, func.buffers))
    return PrimFunc(func.name, params, inner, body, func.attrs)


@checked
def with_unique_names(func: PrimFunc) -> PrimFunc:
    """`func` with other names for loops that have the name of one before, since names are handles,
    and for variables of blocks and lets that have the name of any loop: then a block may come to
    stand in every loop.
    """
    loops = loops_of(func.body)
    known = {loop.name for loop in loops}
    inside = {it.var.name for block in blocks(func.body) for it in block.iters}
    inside |= {node.var.name for node in walk(func.body) if isinstance(node, Let)}
    if len(known) == len(loops) and known.isdisjoint(inside):
        return func
    outside = {b.name for b in (*func.params, *func.buffers)} | {v.name for v in func.free_vars}
    names, seen, chosen = Names(outside | inside | known), set[str](), []
    for loop in loops:
        chosen.append(names.unique(loop.name) if loop.name in seen else loop.name)
        seen.add(loop.name)
    kept = [block.name for block in blocks(func.body)]
    taken = Names(outside.union(chosen))
    return replace_fields(func, body=with_names(func.body, {}, chosen, kept, taken))


def shape_with(buffer: Buffer, sizes: Mapping[Var, Expr]) -> tuple[Expr, ...]:
    """The shape of `buffer` with sizes replaced."""
    return tuple(substitute(extent, sizes) for extent in buffer.shape)


def loops_of(stmt: Stmt) -> list[For]:
    """All loops, in program order."""
    return [node for node in walk(stmt) if isinstance(node, For)]


def with_names(
    stmt: Stmt,
    sizes: Mapping[Var, Expr],
    loop_names: list[str],
    block_names: list[str],
    names: Names,
) -> Stmt:
    """`stmt` with sizes replaced and its loops and blocks renamed, which are in `names` already, in
    program order; variables of blocks and lets get other names where theirs are in `names`.

    All happens at once, so that sizes may have the names of what is renamed.
    """
    return _renamed(stmt, sizes, iter(loop_names), iter(block_names), names)


def _renamed(
    stmt: Stmt,
    values: Mapping[Var, Expr],
    loop_names: Iterator[str],
    block_names: Iterator[str],
    names: Names,
) -> Stmt:
    new = map_own_exprs(stmt, lambda e: substitute(e, values))
    if isinstance(new, For):
        var = Var(next(loop_names), new.var.dtype)
        values, new = {**values, new.var: var}, replace(new, var=var)
    elif isinstance(new, Block):
        names = Names(names.taken)
        own = {it.var: Var(names.unique(it.var.name), it.var.dtype) for it in new.iters}
        iters = tuple(replace(it, var=own[it.var]) for it in new.iters)
        values, new = {**values, **own}, replace(new, name=next(block_names), iters=iters)
    elif isinstance(new, Let):
        names = Names(names.taken)
        var = Var(names.unique(new.var.name), new.var.dtype)
        values, new = {**values, new.var: var}, replace(new, var=var)
    return map_children(
        new, lambda child: _renamed(child, values, loop_names, block_names, names)
    )
