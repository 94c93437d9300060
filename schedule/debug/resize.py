"""The same program over smaller extents: what minimize and debug mode run instead of a large one.

The result need not compute the same thing on fewer elements. It is a program of the same
structure, well formed, and the definition of its own schedules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from schedule.state import replace_func
from tensorir import (
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Numbers,
    PrimFunc,
    Stmt,
    TensorIRError,
    Var,
    child_stmts,
    const,
    dtype,
    int_value,
    map_children,
    map_exprs,
    replace,
    replace_buffers,
    substitute,
    transform,
    verify,
    walk,
)

SMALL = (1, 2, 3, 5, 7, 11)
"""Extents that are tried first: one, and sizes that no tile divides."""

REACH = 3
"""How far from an extent a number in an index expression is still taken to follow it."""


def extents_of(func: PrimFunc) -> list[int]:
    """The constant extents of shapes, loops and block variables, largest first."""
    found: set[Expr] = {s for b in (*func.params, *func.buffers) for s in b.shape}
    for node in walk(func.body):
        if isinstance(node, For):
            found.add(node.extent)
        elif isinstance(node, Block):
            found.update(it.extent for it in node.iters)
    sizes = {int_value(e) for e in found}
    return sorted((n for n in sizes if n is not None and n > 1), reverse=True)


def work(func: PrimFunc, sizes: Numbers | None = None) -> int:
    """How many statements the interpreter executes, about; unknown sizes count as 1."""
    given = sizes or {}
    known: dict[Var, Expr] = {v: const(given[v.name]) for v in func.size_vars if v.name in given}

    def count(stmt: Stmt) -> int:
        below = sum(map(count, child_stmts(stmt)))
        if isinstance(stmt, For):
            extent = int_value(substitute(stmt.extent, known))
            return max(below, 1) * (1 if extent is None else extent)
        return max(below, 1)

    cells = sum(prod(b.const_shape or ()) for b in (*func.params, *func.buffers))
    return count(func.body) + cells


def smaller_programs(func: PrimFunc) -> Iterator[PrimFunc]:
    """Well-formed programs with one extent, or all from one on, made smaller; boldest first."""
    sizes = extents_of(func)
    for size in sizes:
        steps = {n for n in (*SMALL, size // 2, size - 1) if 0 < n < size}
        for target in sorted(steps):
            gone = size - target
            together = {n: n - gone for n in sizes if n >= size}
            for change in ({size: target}, together):
                for everywhere in (True, False):
                    made = resized(func, change, everywhere)
                    if made is not None:
                        yield made


def capped(func: PrimFunc, limit: int) -> PrimFunc | None:
    """`func` with every extent above `limit` brought near it, where that is well formed.

    Extents keep their order and small differences, so that a padded extent stays larger than
    what it pads.
    """
    sizes = [n for n in sorted(extents_of(func)) if n > limit]
    change: dict[int, int] = {}
    last, now = 0, limit
    for size in sizes:
        now = limit if not last else now + min(size - last, 2)
        change[size] = now
        last = size
    if not change:
        return func
    return resized(func, change, True) or resized(func, change, False)


def resized(func: PrimFunc, change: Mapping[int, int], everywhere: bool) -> PrimFunc | None:
    """`func` with extents replaced, and with `everywhere` also such numbers in index expressions.

    Numbers next to a large extent move with it. None where that is no well-formed program.
    """
    near = {
        size + step: less + step
        for size, less in change.items()
        for step in (range(-REACH, REACH + 1) if size > 4 * REACH and less > REACH else (0,))
    } | dict(change)

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Const) and e.dtype == dtype.INDEX and e.value in near:
            return const(near[int(e.value)])
        return None

    def fit(e: Expr) -> Expr:
        return transform(e, rule)

    def shaped(buffer: Buffer) -> Buffer:
        return buffer.with_shape(tuple(map(fit, buffer.shape)))

    try:
        body = map_exprs(func.body, fit) if everywhere else _with_extents(func.body, change)
        buffers = {b: shaped(b) for b in (*func.params, *func.buffers)}
        made = replace_func(
            func,
            params=tuple(buffers[p] for p in func.params),
            buffers=tuple(buffers[b] for b in func.buffers),
            body=replace_buffers(body, buffers),
        )
        verify(made)
    except (TensorIRError, ValueError, ArithmeticError):
        return None
    return made


def _with_extents(stmt: Stmt, change: Mapping[int, int]) -> Stmt:
    stmt = map_children(stmt, lambda child: _with_extents(child, change))

    def fit(e: Expr) -> Expr:
        value = int_value(e)
        return e if value is None or value not in change else const(change[value])

    if isinstance(stmt, For):
        return replace(stmt, extent=fit(stmt.extent))
    if isinstance(stmt, Block):
        iters = tuple(replace(it, extent=fit(it.extent)) for it in stmt.iters)
        return replace(stmt, iters=iters)
    return stmt
