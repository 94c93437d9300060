"""How often a thread waits: for what it reads, and for other threads."""

from __future__ import annotations

from autotune.rules.group import size
from tensorir import (
    WRITTEN_OUT,
    Alloc,
    Exchange,
    For,
    ForKind,
    If,
    Let,
    Seq,
    Stmt,
    Sync,
    loads,
    stmt_exprs,
    walk,
)

UNROLLED = 4
"""Iterations of a loop without waits whose loads compilers let run ahead of their uses."""


def rounds(stmt: Stmt) -> float:
    """How often a thread waits for global memory: loads without a wait of threads or a loop
    between them are under way together."""
    if isinstance(stmt, Seq):
        found, most = 0.0, 0.0
        for part in stmt.stmts:
            if isinstance(part, Sync):
                found, most = found + most, 0.0
            most = max(most, rounds(part))
        return found + most
    if isinstance(stmt, For):
        inner, count = rounds(stmt.body), size(stmt.extent)
        if stmt.kind is ForKind.UNROLLED:
            return inner * (count // stmt.annotations.get(WRITTEN_OUT, count))
        waits = any(isinstance(s, (Sync, Exchange)) for s in walk(stmt.body))
        return inner * (count if waits else -(-count // UNROLLED))
    if isinstance(stmt, If):
        return max(rounds(s) for s in (stmt.then, stmt.orelse) if s is not None)
    if isinstance(stmt, (Alloc, Let)):
        return rounds(stmt.body)
    read = (n for e in stmt_exprs(stmt) for n in loads(e))
    return float(any(n.buffer.scope == "global" for n in read))


def waits(stmt: Stmt) -> float:
    """How often a block waits for its threads; a shuffle is half of that."""
    if isinstance(stmt, Sync):
        return 1.0 if stmt.scope == "block" else 0.5
    if isinstance(stmt, Exchange):
        return 0.5
    if isinstance(stmt, For):
        return size(stmt.extent) * waits(stmt.body)
    if isinstance(stmt, Seq):
        return sum(map(waits, stmt.stmts))
    if isinstance(stmt, If):
        return waits(stmt.then) + (waits(stmt.orelse) if stmt.orelse is not None else 0.0)
    return waits(stmt.body) if isinstance(stmt, (Alloc, Let)) else 0.0
