"""How much arithmetic a program does, for GFLOP/s."""

from __future__ import annotations

from math import prod

from tensorir import (
    REINTERPRET,
    BinOp,
    Call,
    Expr,
    Extern,
    PrimFunc,
    Select,
    Store,
    blocks,
    dtype,
    int_value,
    stmt_exprs,
    walk,
    walk_exprs,
)

COUNTED = ("+", "-", "*", "/", "min", "max")


def flops(func: PrimFunc) -> int | None:
    """Operations on floats (or on integers, in a program without floats) of the unscheduled
    program: one for each + - * / min max and function call. None where a size is symbolic or an
    extern function is called.
    """
    if any(isinstance(stmt, Extern) for stmt in walk(func.body)):
        return None
    total = 0
    for block in blocks(func.body):
        extents = [int_value(it.extent) for it in block.iters]
        if any(e is None for e in extents):
            return None
        total += prod(e or 0 for e in extents) * _operations(block.body)
    return total


def _operations(body: object) -> int:
    count = 0
    for stmt in walk(body):  # type: ignore[arg-type]
        if isinstance(stmt, Store):
            floating = dtype.is_float(stmt.buffer.dtype)
            count += sum(
                _counts(node, floating) for e in stmt_exprs(stmt) for node in walk_exprs(e)
            )
    return count


def _counts(node: Expr, floating: bool) -> bool:
    if isinstance(node, (Call, Select)):
        return isinstance(node, Call) and node.name != REINTERPRET
    return (
        isinstance(node, BinOp)
        and node.op in COUNTED
        and (dtype.is_float(node.dtype) or (not floating and node.dtype != dtype.INDEX))
    )
