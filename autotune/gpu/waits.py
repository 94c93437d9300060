"""How often a thread waits: for what it reads, and for other threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from autotune.rules.group import size
from tensorir import (
    WRITTEN_OUT,
    Alloc,
    Buffer,
    Exchange,
    Expr,
    For,
    ForKind,
    If,
    Let,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    Sync,
    child_stmts,
    loads,
    stmt_exprs,
    walk,
)

UNROLLED = 4
"""Iterations of a loop without waits whose loads compilers let run ahead of their uses."""


def rounds(stmt: Stmt, room: float = inf) -> float:
    """How often a thread waits for global memory: loads without a wait of threads or a loop
    between them are under way together. What goes to an array of the thread is waited for where
    that is read first, and not where a thread has `room` operations to do before: as many as take
    as long as memory does."""
    if isinstance(stmt, For):
        inner, count = rounds(stmt.body, room), size(stmt.extent)
        if stmt.kind is ForKind.UNROLLED:
            return inner * (count // stmt.annotations.get(WRITTEN_OUT, count))
        waits = any(isinstance(s, (Sync, Exchange)) for s in walk(stmt.body))
        return inner * (count if waits else -(-count // UNROLLED))
    if isinstance(stmt, If):
        return max(rounds(s, room) for s in (stmt.then, stmt.orelse) if s is not None)
    if isinstance(stmt, (Seq, Alloc, Let)):
        return _one_after_the_other(_parts(stmt), room)
    return float(bool(_read(stmt, "global")))


def _parts(stmt: Stmt) -> Iterator[Stmt]:
    """What is done one after the other, whatever arrays it is done with."""
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _parts(part)
    elif isinstance(stmt, (Alloc, Let)):
        yield from _parts(stmt.body)
    else:
        yield stmt


def _one_after_the_other(parts: Iterable[Stmt], room: float) -> float:
    found = most = 0.0
    asked = dict[Buffer, float]()  # arrays on whose elements nobody waits yet; operations since
    for part in parts:
        if isinstance(part, Sync):
            found, most = found + most, 0.0
        used = [asked.pop(b) for b in _read(part, "local") & asked.keys()] if asked else []
        most = max([most, *(max(0.0, 1 - done / room) for done in used)])
        filled, each = _only_asked(part), rounds(part, room)
        if filled and each <= 1:
            asked |= dict.fromkeys(filled, 0.0)
            continue
        asked = {b: done + _operations(part) for b, done in asked.items()} if asked else asked
        most = max(most, each)
    return found + max(most, float(bool(asked)))


def _only_asked(stmt: Stmt) -> set[Buffer]:
    """The arrays of a thread that a statement fills with what it loads, if it does nothing else."""
    stores = [s for s in walk(stmt) if isinstance(s, Store)]
    if not all(s.buffer.scope == "local" and _is_loaded(s.value) for s in stores):
        return set()
    if any(isinstance(s, (Sync, Exchange)) for s in walk(stmt)):
        return set()
    filled, read = {s.buffer for s in stores}, {x.buffer for s in stores for x in loads(s.value)}
    return filled if read and all(b.scope == "global" for b in read) else set()


def _is_loaded(value: Expr) -> bool:
    """Whether a value is what memory has, or something else where a condition says so."""
    if isinstance(value, Select) and not value.cond.has_loads:
        return all(not e.has_loads or _is_loaded(e) for e in (value.a, value.b))
    return isinstance(value, Load)


def _read(stmt: Stmt, scope: str) -> set[Buffer]:
    """The arrays of a scope that are read in a statement."""
    found = (load.buffer for s in walk(stmt) for e in stmt_exprs(s) for load in loads(e))
    return {b for b in found if b.scope == scope}


def _operations(stmt: Stmt) -> float:
    """What a thread does in a statement: results, or elements that it stores."""
    times = size(stmt.extent) if isinstance(stmt, For) else 1
    own = isinstance(stmt, (Store, Exchange))
    return float(own) + times * sum(map(_operations, child_stmts(stmt)))


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
