"""What statements touch of buffers, and the places that make up the parts of an Extern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var
from tensorir.stmt import Alloc, Exchange, Extern, Part, Prefetch, Seq, Stmt, Store, replace
from tensorir.visit import (
    child_stmts,
    loads,
    map_children,
    map_loads,
    map_own_exprs,
    map_parts,
    stmt_exprs,
    walk,
)

Touch = tuple[Buffer, tuple[Expr, ...], bool]
"""A buffer, indices into it, and whether it is written there."""


def touched(stmt: Stmt) -> tuple[Touch, ...]:
    """What `stmt` itself touches of buffers, apart from the loads in its expressions.

    The indices of a part of an Extern run over it by variables of their own: `part_axes`.
    """
    if isinstance(stmt, (Store, Exchange)):
        return ((stmt.buffer, stmt.indices, True),)
    if isinstance(stmt, Extern):
        written = (False,) * len(stmt.inputs) + (True,) * len(stmt.outputs)
        parts = zip(stmt.parts, written)
        return tuple((part.buffer, part_indices(part), is_write) for part, is_write in parts)
    return ()


def buffers_in(stmt: Stmt) -> frozenset[Buffer]:
    """All buffers that `stmt` and the statements in it read or write, allocate or prefetch; found
    once for each statement, so that a rewrite need not look into those that it does not change."""
    known: frozenset[Buffer] | None = getattr(stmt, "_buffers", None)
    if known is not None:
        return known
    own = {buffer for buffer, _, _ in touched(stmt)}
    own.update([load.buffer for e in stmt_exprs(stmt) if e.has_loads for load in loads(e)])
    if isinstance(stmt, (Alloc, Prefetch)):
        own.add(stmt.buffer)
    found = frozenset(own)
    for inside in map(buffers_in, child_stmts(stmt)):
        if not inside <= found:
            found = inside if found <= inside else found | inside
    object.__setattr__(stmt, "_buffers", found)
    return found


@lru_cache(maxsize=8)
def users_in(body: Stmt) -> Mapping[Buffer, Sequence[Stmt]]:
    """The nests at the root of a program that use each buffer, in its order; not to change."""
    found: dict[Buffer, list[Stmt]] = {}
    for nest in body.stmts if isinstance(body, Seq) else (body,):
        for buffer in buffers_in(nest):
            found.setdefault(buffer, []).append(nest)
    return found


@lru_cache(maxsize=4096)
def written_in(stmt: Stmt) -> frozenset[Buffer]:
    """The buffers that a statement or one inside of it writes; those of nests at the root are found
    once, as most steps leave these as they are."""
    if isinstance(stmt, Seq):
        return frozenset().union(*map(written_in, stmt.stmts))
    return frozenset([b for s in walk(stmt) for b, _, is_write in touched(s) if is_write])


def replace_buffers(stmt: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with loads, stores, parts and allocations moved to other buffers of the same rank."""

    def swap(e: Load) -> Expr | None:
        return Load(buffers[e.buffer], e.indices) if e.buffer in buffers else None

    def move(part: Part) -> Part:
        new = buffers.get(part.buffer)
        if new is None:
            return part
        old = part.buffer.shape[part.lead :]
        whole = all(a is b for a, b in zip(part.shape, old))
        return Part(new, part.indices, new.shape[part.lead :] if whole else part.shape)

    memo: dict[Expr, Expr] = {}

    def moved(node: Stmt) -> Stmt:
        if buffers_in(node).isdisjoint(buffers):
            return node
        node = map_own_exprs(map_children(node, moved), lambda e: map_loads(e, swap, memo))
        if isinstance(node, (Store, Alloc, Prefetch, Exchange)) and node.buffer in buffers:
            return replace(node, buffer=buffers[node.buffer])
        return map_parts(node, move) if isinstance(node, Extern) else node

    return moved(stmt)


def part_axes(part: Part) -> dict[Var, Expr]:
    """Variables that run over a part, outermost first, with their extents.

    Their names have a dot, which no other variable has: the same dimension of the same buffer is
    always run over by the same variable. A part of a flat buffer is one run of elements.
    """
    shape = part.shape
    if len(shape) > len(part.indices):
        count: Expr = shape[0]
        for size in shape[1:]:
            count = count * size
        shape = (count,)
    return {Var(f"{part.buffer.name}.{part.lead + n}"): size for n, size in enumerate(shape)}


def part_indices(part: Part) -> tuple[Expr, ...]:
    """The indices of the elements of a part, in terms of its `part_axes`."""
    first = part.indices[part.lead :]
    return (*part.indices[: part.lead], *(a + v for a, v in zip(first, part_axes(part))))
