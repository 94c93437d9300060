"""The axes of a kernel: blocks of threads, threads, and what stands for several of them.

Threads of a block are counted by the linear index tx + ty * Dx + tz * Dx * Dy; 32 that follow each
other, from a multiple of 32 on, are a warp.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.expr import Const, Expr
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt
from tensorir.targets.thread_axes import BLOCK_AXES as BLOCK_AXES
from tensorir.targets.thread_axes import THREAD_AXES as THREAD_AXES
from tensorir.targets.thread_axes import VIRTUAL_AXES as VIRTUAL_AXES
from tensorir.targets.thread_axes import WARP as WARP
from tensorir.targets.thread_axes import WARP_AXES as WARP_AXES
from tensorir.visit import walk

NEST = (*reversed(BLOCK_AXES), *reversed(THREAD_AXES))
"""The loops of a kernel, outermost first."""


def is_block_loop(stmt: Stmt) -> bool:
    """Whether `stmt` is a loop over blocks of threads."""
    return isinstance(stmt, For) and stmt.thread in BLOCK_AXES


def is_thread_loop(stmt: Stmt) -> bool:
    """Whether the threads of a block share the iterations of `stmt`."""
    return isinstance(stmt, For) and stmt.thread in (*THREAD_AXES, *WARP_AXES)


def has_threads(stmt: Stmt) -> bool:
    """Whether a loop in `stmt` is bound to an axis."""
    return any([isinstance(s, For) and s.kind is ForKind.THREAD for s in walk(stmt)])


def kernel_roots(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that run one after the other: kernels, once each has its loops."""
    if isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from kernel_roots(child)
    elif isinstance(stmt, Alloc):
        yield from kernel_roots(stmt.body)
    elif isinstance(stmt, If):
        yield from kernel_roots(stmt.then)
        if stmt.orelse is not None:
            yield from kernel_roots(stmt.orelse)
    else:
        yield stmt


def nest_of(stmt: Stmt) -> tuple[list[For], Stmt]:
    """The loops over axes that `stmt` begins with, outermost first, and the code inside."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind is ForKind.THREAD:
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def is_kernel(stmt: Stmt) -> bool:
    """Whether `stmt` is a kernel as lowered: all loops over axes outermost, each axis once."""
    loops, body = nest_of(stmt)
    axes = [loop.thread for loop in loops]
    return bool(loops) and axes == [axis for axis in NEST if axis in axes] and not has_threads(body)


def threads_of(loops: list[For]) -> int:
    """How many threads a block of the kernel with these loops has."""
    count = 1
    for loop in loops:
        if loop.thread in THREAD_AXES:
            count *= loop.const_extent or 1
    return count


def linear_thread(loops: list[For]) -> Expr:
    """The number of the thread in its block, as an expression of the loops of its kernel."""
    found: Expr = Const(0, "int64")
    for loop in loops:
        if loop.thread in THREAD_AXES:
            found = found * loop.extent + loop.var
    return found
