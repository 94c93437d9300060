"""Exchanges between the lanes of a warp: which of the ways that hardware has is meant."""

from __future__ import annotations

from dataclasses import dataclass

from backends.gpu.launches import BLOCK, Kernel
from tensorir import BinOp, Const, Expr, Select, const, int_value
from tensorir import dtype as dt

WARP = 32


@dataclass(frozen=True, eq=False)
class Pattern:
    """`kind` is "xor" or "down", with a constant, or "lane", with any source."""

    kind: str
    operand: Expr


def pattern_of(source: Expr, kernel: Kernel) -> Pattern:
    """The way in which `source` is the lane of another thread."""
    lanes = lane_expressions(kernel)
    if isinstance(source, BinOp) and source.op == "^":
        for lane, other in ((source.a, source.b), (source.b, source.a)):
            if lane in lanes and isinstance(other, Const):
                return Pattern("xor", other)
    if isinstance(source, Select) and source.b in lanes:
        if isinstance(source.a, BinOp) and source.a.op == "+" and source.a.a in lanes:
            delta, inside = source.a.b, (source.a < WARP, source.b < WARP - _number(source.a.b))
            if isinstance(delta, Const) and source.cond in inside:
                return Pattern("down", delta)
    return Pattern("lane", source)


def lane_expressions(kernel: Kernel) -> set[Expr]:
    """Expressions that are the lane of a thread."""
    index = {loop.thread: loop.var for loop in kernel.axes}
    linear: Expr | None = None
    count = 1
    for axis, extent in zip(BLOCK, kernel.block):
        size = int_value(extent)
        var = index.get(axis)
        if var is not None:
            term: Expr = var if count == 1 else var * const(count, dt.element(var.dtype))
            linear = term if linear is None else linear + term
        if size is None:
            break
        count *= size
    if linear is None:
        return set()
    found = {linear % WARP, linear & (WARP - 1)}
    if kernel.threads is not None and kernel.threads <= WARP:
        found.add(linear)
    x, width = index.get(BLOCK[0]), int_value(kernel.block[0])
    if x is not None and width is not None and width % WARP == 0:
        found |= {x % WARP, x & (WARP - 1)} | ({x} if width == WARP else set())
    return found


def _number(e: Expr) -> int:
    return int_value(e) or 0
