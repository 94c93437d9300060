"""masked_tails: the last lanes of a vectorized loop as one vector of which a part counts.

A masked statement is an If on a vector condition, `ramp(0, 1, lanes) < broadcast(n, lanes)`: its
body runs for the lanes n that come first. Only loads and stores of those lanes happen; arithmetic
is done in all of them, on zeros where nothing was loaded.
"""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.expr import BinOp, Broadcast, Const, Expr, Load, Ramp, Shuffle, int_value
from tensorir.stmt import For, If, Let, Seq, Stmt, Store
from tensorir.target import Target
from tensorir.visit import walk_exprs

NEEDED = ("avx512bw", "avx512f", "avx512vl")
"""What a target has whose loads and stores take masks for elements of every size.

The masked stores of AVX2 are left alone: on AMD's processors they cost more than they save.
"""

REGISTERS = (128, 256, 512)


def has_masks(target: Target) -> bool:
    """Whether `target` loads and stores the first lanes of a vector in one instruction."""
    return target.kind == "c" and set(NEEDED) <= set(target.features)


def first_lanes(count: Expr, lanes: int, body: Stmt) -> Stmt:
    """`body` for the first `count` of its lanes."""
    ramp = Ramp(Const(0, dt.INDEX), Const(1, dt.INDEX), lanes)
    return If(BinOp("<", ramp, Broadcast(count, lanes)), body)


def mask_count(cond: Expr) -> Expr | None:
    """The number of lanes that a condition made by `first_lanes` lets run; None for others."""
    if not isinstance(cond, BinOp) or cond.op != "<" or not isinstance(cond.a, Ramp):
        return None
    starts = int_value(cond.a.base) == 0 and int_value(cond.a.stride) == 1
    return cond.b.a if starts and isinstance(cond.b, Broadcast) else None


def maskable(stmt: Stmt, lanes: int) -> bool:
    """Whether vector code may run for some lanes: all it touches is contiguous, and nothing traps.

    What is the same in all lanes may be loaded, for one of them does run, but not stored.
    """
    if isinstance(stmt, Seq):
        return all(maskable(s, lanes) for s in stmt.stmts)
    if isinstance(stmt, Store):
        whole = stmt.buffer.dtype == dt.element(stmt.buffer.dtype)
        return whole and _touches(stmt.buffer.dtype, stmt.indices[0], lanes) and _quiet(
            stmt.value, lanes
        )
    if isinstance(stmt, Let):
        return _quiet(stmt.value, lanes) and maskable(stmt.body, lanes)
    if isinstance(stmt, For):
        return dt.lanes(stmt.extent.dtype) == 1 and maskable(stmt.body, lanes)
    if isinstance(stmt, If):
        branches = [stmt.then, *([] if stmt.orelse is None else [stmt.orelse])]
        return dt.lanes(stmt.cond.dtype) == 1 and all(maskable(s, lanes) for s in branches)
    return False


def _touches(dtype: str, index: Expr, lanes: int) -> bool:
    """Whether `index` names `lanes` neighbours that fill a register."""
    if not isinstance(index, Ramp) or index.lanes != lanes or int_value(index.stride) != 1:
        return False
    return dt.bits(dtype) * lanes in REGISTERS and not dt.is_bool(dtype)


def _quiet(e: Expr, lanes: int) -> bool:
    for node in walk_exprs(e):
        if dt.lanes(node.dtype) == 1:
            continue
        if isinstance(node, Load) and not _touches(node.buffer.dtype, node.indices[0], lanes):
            return False
        if isinstance(node, BinOp) and node.op in ("//", "%"):
            divisor = node.b.a if isinstance(node.b, Broadcast) else node.b
            if not int_value(divisor):
                return False
        if isinstance(node, Shuffle):
            return False
    return True
