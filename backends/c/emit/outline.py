"""Outlining: what a statement needs from around it when it becomes a function of its own."""

from __future__ import annotations

from tensorir import (
    Alloc,
    Buffer,
    Expr,
    For,
    Let,
    Load,
    Prefetch,
    Stmt,
    Var,
    stmt_exprs,
    touched,
    walk,
    walk_exprs,
)


def free_names(s: Stmt) -> tuple[list[Buffer], list[Var], set[Buffer]]:
    """What `s` refers to and does not make: buffers, variables, and the buffers it writes."""
    buffers: dict[Buffer, None] = {}
    variables: dict[Var, None] = {}
    written: set[Buffer] = set()
    inside: set[Buffer | Var] = set()
    seen: set[Expr] = set()
    for stmt in walk(s):
        _note_statement(stmt, buffers, written, inside)
        for e in (*stmt_exprs(stmt), *_sizes(stmt)):
            for node in walk_exprs(e, seen):
                if isinstance(node, Load):
                    buffers[node.buffer] = None
                elif isinstance(node, Var):
                    variables[node] = None
    return (
        [b for b in buffers if b not in inside],
        [v for v in variables if v not in inside],
        written,
    )


def _note_statement(
    stmt: Stmt, buffers: dict[Buffer, None], written: set[Buffer], inside: set[Buffer | Var]
) -> None:
    for buffer, _, is_write in touched(stmt):
        buffers[buffer] = None
        if is_write:
            written.add(buffer)
    if isinstance(stmt, Prefetch):
        buffers[stmt.buffer] = None
    elif isinstance(stmt, (For, Let)):
        inside.add(stmt.var)
    elif isinstance(stmt, Alloc):
        inside.add(stmt.buffer)


def _sizes(stmt: Stmt) -> tuple[Expr, ...]:
    return stmt.buffer.shape if isinstance(stmt, Alloc) else ()
