"""The same program under other names, and the same request of a schedule of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace as replace_fields
from random import Random
from typing import Any

from schedule import Schedule
from schedule.requests.moves import NO_PLACES
from tensorir import Block, Buffer, For, Let, PrimFunc, Stmt, Var, walk
from tensorir.parts import replace_buffers
from tensorir.rewrite.rename import loops_of
from tensorir.stmt import replace
from tensorir.visit import map_children, map_own_exprs, substitute

Namer = Callable[[set[str], str], str]
"""A name for something called so, which is none of a set."""


def from_pool(names: Iterable[str], seed: int) -> Namer:
    """Draws from `names`, as long as some are left that may be taken."""
    pool, rng = sorted(set(names)), Random(seed)

    def namer(taken: set[str], old: str) -> str:
        free = [name for name in pool if name not in taken]
        return rng.choice(free) if free else apart(taken, old)

    return namer


def apart(taken: set[str], old: str) -> str:
    """A name that nothing is derived from."""
    number = 0
    while f"q{number}" in taken:
        number += 1
    return f"q{number}"


def all_names(func: PrimFunc) -> set[str]:
    """What is called anything in a program."""
    found = {b.name for b in (*func.params, *func.buffers)} | {v.name for v in func.size_vars}
    for node in walk(func.body):
        if isinstance(node, (For, Let)):
            found.add(node.var.name)
        if isinstance(node, Block):
            found |= {node.name, *(it.var.name for it in node.iters)}
    return found


def renamed(func: PrimFunc, namer: Namer) -> PrimFunc:
    """`func` with all sizes, buffers, loops, blocks and variables called otherwise."""
    taken: set[str] = set()

    def new(old: str, beside: Iterable[str] = ()) -> str:
        name = namer({*taken, *beside}, old)
        taken.add(name)
        return name

    sizes: dict[Var, Any] = {v: Var(new(v.name), v.dtype) for v in func.size_vars}

    def moved(b: Buffer) -> Buffer:
        shape = tuple(substitute(extent, sizes) for extent in b.shape)
        return Buffer(new(b.name), shape, b.dtype, b.scope)

    buffers = {b: moved(b) for b in (*func.params, *func.buffers)}
    outer = set(taken)
    loops = iter([new(loop.name) for loop in loops_of(func.body)])
    handles: set[str] = set()

    def visit(stmt: Stmt, values: dict[Var, Any], scope: set[str]) -> Stmt:
        stmt = map_own_exprs(stmt, lambda e: substitute(e, values))
        if isinstance(stmt, For):
            var = Var(next(loops), stmt.var.dtype)
            values, stmt = {**values, stmt.var: var}, replace(stmt, var=var)
            scope = {*scope, var.name}
        elif isinstance(stmt, Block):
            name = namer({*taken, *handles}, stmt.name)
            handles.add(name)
            own = {}
            for it in stmt.iters:
                own[it.var] = Var(namer({*outer, *scope}, it.var.name), it.var.dtype)
                scope = {*scope, own[it.var].name}
            iters = tuple(replace(it, var=own[it.var]) for it in stmt.iters)
            values, stmt = {**values, **own}, replace(stmt, name=name, iters=iters)
        elif isinstance(stmt, Let):
            var = Var(namer({*outer, *scope}, stmt.var.name), stmt.var.dtype)
            values, stmt = {**values, stmt.var: var}, replace(stmt, var=var)
            scope = {*scope, var.name}
        return map_children(stmt, lambda child: visit(child, values, scope))

    body = replace_buffers(visit(func.body, dict(sizes), set()), buffers)
    groups = [tuple(buffers[b] for b in group) for group in (func.params, func.buffers)]
    return replace_fields(func, params=groups[0], buffers=groups[1], body=body)


def translated(args: dict[str, Any], known: Schedule, other: Schedule) -> dict[str, Any]:
    """Arguments of a request of `known` as those of a schedule of the program under other names."""
    rows = []
    for sch in (known, other):
        func, state = sch.func, sch.state
        buffers = [b.name for b in (*func.params, *func.buffers)]
        rows.append((buffers, [*state.loop_names(), *state.block_names()]))
    (old_buffers, old), (new_buffers, new) = rows
    assert len(old) == len(new) and len(old_buffers) == len(new_buffers)
    places, arrays = dict(zip(old, new)), dict(zip(old_buffers, new_buffers))

    def place(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [place(v) for v in value]
        return places.get(value, value) if isinstance(value, str) else value

    def one(key: str, value: Any) -> Any:
        if key == "buffer":
            return arrays.get(value, value)
        if key == "by" and isinstance(value, str):  # an expression of loops
            return re.sub(r"[^\W\d]\w*", lambda found: places.get(found[0], found[0]), value)
        return value if key in NO_PLACES else place(value)

    return {key: one(key, value) for key, value in args.items()}
