"""Programs for GPUs: which loops may be over threads, and what threads may do to memory.

A kernel is one statement of the function's outermost sequence. A loop over an axis has one
iteration for each index of it; what stands outside of all loops over an axis is done by the first
thread of it. Threads of a block wait for each other where a loop over threads ends and after what
the first of them does alone; blocks of threads never do. `thread_fault` is asked about every
program with thread loops, one that a primitive makes and one that comes as text.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tensorir.analysis.independence import analyzer_of, ranges
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.expr import binary
from tensorir.func import PrimFunc
from tensorir.parts import buffers_in
from tensorir.rewrite.rectangular import largest_value
from tensorir.scalars import SizeRanges
from tensorir.stmt import Block, For, ForKind, If, Stmt
from tensorir.targets.thread_axes import (
    AXES,
    BLOCK_AXES,
    LARGEST,
    MAX_THREADS,
    REAL_AXES,
    WARP,
    WARP_AXES,
)
from tensorir.verifier.kernels import Fault, Kernel, kernels_of
from tensorir.verifier.thread_memory import memory_fault
from tensorir.verifier.thread_reductions import reduction_fault
from tensorir.visit import child_stmts, loads

KERNELS = 128
"""Kernels of which the verdicts are kept: most steps of a schedule change one of several."""


@lru_cache(maxsize=64)
def thread_fault(func: PrimFunc, before: PrimFunc | None = None) -> Fault | None:
    """Why threads cannot run the program as it is; None if they can, or if there are none.

    `before` is a program without a fault that a step has made this one of: what kernels that are
    as they were share with each other is not asked again.
    """
    kernels = kernels_of(func)
    if not any([kernel.threads for kernel in kernels]):
        return None
    was = [] if before is None else kernels_of(before)
    known = {kernel.stmt for kernel in was} & {kernel.stmt for kernel in kernels}
    for kernel in kernels:
        fault = None if kernel.stmt in known else _kernel_fault(func.size_ranges, kernel)
        if fault is not None:
            return fault
    changed = [kernel for kernel in (*kernels, *was) if kernel.stmt not in known]
    touched = frozenset[Buffer]().union(*[buffers_in(kernel.stmt) for kernel in changed])
    if not any([kernel.threads for kernel in changed]):  # and so not what the others do to memory
        touched = frozenset([b for b in touched if b.scope != "global"])  # that all have in common
    used = dict.fromkeys(b for k in kernels if k.threads for b in k.uses if b in touched)
    return memory_fault(func, kernels, used)


def check_thread_loops(func: PrimFunc) -> None:
    """Raise VerifyError where `thread_fault` finds something."""
    fault = thread_fault(func)
    if fault is not None:
        raise VerifyError(f"{fault.reason}; {fault.hint}" if fault.hint else fault.reason)


@lru_cache(maxsize=KERNELS)
def _kernel_fault(sizes: SizeRanges, kernel: Kernel) -> Fault | None:
    """The same of one kernel, whatever others use of its memory."""
    if not kernel.threads:
        return None
    placed = reduction_fault(kernel) or _misplaced(kernel.stmt, ())
    return placed or _sizes(sizes, kernel) or _unforeseen(sizes, kernel)


def _misplaced(stmt: Stmt, outside: tuple[For, ...]) -> Fault | None:
    """The order of axes: blockIdx outermost, then threads; no axis inside itself."""
    inside = outside
    if isinstance(stmt, For):
        fault = _misplaced_loop(stmt, outside)
        if fault is not None:
            return fault
        inside = (*outside, stmt)
    for child in child_stmts(stmt):
        fault = _misplaced(child, inside)
        if fault is not None:
            return fault
    return None


def _misplaced_loop(loop: For, outside: tuple[For, ...]) -> Fault | None:
    name = loop.name
    if loop.kind is ForKind.PARALLEL:
        for outer in outside:
            if outer.kind is ForKind.THREAD:
                reason = f"the parallel loop {name!r} is inside thread loop {outer.name!r}"
                return Fault(name, reason)
    if loop.kind is not ForKind.THREAD:
        return None
    for outer in outside:
        if outer.kind in (ForKind.VECTORIZED, ForKind.PARALLEL):
            return Fault(name, f"thread loop {name!r} is inside the {outer.kind} {outer.name!r}")
        if loop.thread in BLOCK_AXES and outer.thread not in BLOCK_AXES:
            return Fault(
                name,
                f"loop {name!r}, bound to {loop.thread}, is inside loop {outer.name!r}, "
                "which is bound to no block axis",
                "blockIdx loops are the outermost of a kernel: reorder them",
            )
        if outer.thread == loop.thread:
            return Fault(
                name, f"loops {outer.name!r} and {name!r}, one inside the other, are {loop.thread}"
            )
    return None


def _sizes(sizes: SizeRanges, kernel: Kernel) -> Fault | None:
    """One extent for each axis of a kernel, and no more threads than a block can have."""
    analyzer = analyzer_of(sizes, {})
    for loop in kernel.threads:
        axis = loop.thread or ""
        fault = _size(loop)
        if fault is not None:
            return fault
        other = kernel.axes[axis]
        if not analyzer.prove(binary("==", other.extent, loop.extent)):
            return Fault(
                loop.name,
                f"loops {other.name!r} and {loop.name!r} of one kernel are both bound to {axis}, "
                f"with extents {other.extent!r} and {loop.extent!r}",
                "split them so that the bound parts have the same extent",
            )
    return _warps(kernel) or _threads(kernel)


def _size(loop: For) -> Fault | None:
    axis, size = loop.thread or "", loop.const_extent
    if axis not in AXES:
        return Fault(loop.name, f"{loop.thread!r} of loop {loop.name!r} is no thread axis")
    if axis not in BLOCK_AXES and size is None:
        return Fault(
            loop.name,
            f"the extent {loop.extent!r} of loop {loop.name!r} is not a number",
            f"split it by a number and bind the inner part to {axis}",
        )
    if axis == "lane" and size != WARP:
        return Fault(
            loop.name,
            f"loop {loop.name!r} has extent {size}; a warp has {WARP} lanes",
            f"split it by {WARP} and bind the inner part to lane",
        )
    if size is not None and not 1 <= size <= LARGEST[axis]:
        reason = f"loop {loop.name!r} has extent {size}; {axis} takes 1 to {LARGEST[axis]}"
        return Fault(loop.name, reason)
    return None


def _warps(kernel: Kernel) -> Fault | None:
    """Lanes and warps are what threadIdx.x is made of."""
    plain = kernel.axes.get("threadIdx.x")
    for axis in WARP_AXES:
        loop = kernel.axes.get(axis)
        if loop is not None and plain is not None:
            return Fault(
                loop.name,
                f"loop {loop.name!r} is bound to {axis}, which is a part of threadIdx.x, to which "
                f"loop {plain.name!r} of the same kernel is bound",
                "use threadIdx.x in a kernel, or warp and lane",
            )
    return None


def _threads(kernel: Kernel) -> Fault | None:
    loops = [loop for axis, loop in kernel.axes.items() if axis in REAL_AXES]
    count = prod([loop.const_extent or 1 for loop in loops])
    if "warp" in kernel.axes and "lane" not in kernel.axes:
        count *= WARP
    if count <= MAX_THREADS:
        return None
    names = ", ".join([repr(loop.name) for loop in loops])
    return Fault(
        loops[-1].name,
        f"loops {names} make {count} threads per block; a block has at most {MAX_THREADS}",
    )


def _unforeseen(sizes: SizeRanges, kernel: Kernel) -> Fault | None:
    """All threads of a block walk through what is around a loop over threads, since they wait for
    each other at its end: how often loops there run has to be known, at the most, and conditions
    there must not change while threads ask for them."""
    written = {b for b, uses in kernel.uses.items() if any([u.access.is_write for u in uses])}
    known = ranges(kernel.stmt)
    analyzer = analyzer_of(sizes, known)

    def visit(stmt: Stmt, why: str | None) -> Fault | None:
        if isinstance(stmt, For):
            if stmt.thread in REAL_AXES and why is not None:
                return Fault(
                    stmt.name,
                    f"loop {stmt.name!r}, bound to {stmt.thread}, is {why}, and all threads of a "
                    "block wait for each other where it ends",
                    "bind a loop outside of that, or let the condition stand inside of the loop",
                )
            asks = stmt.extent.has_loads
            if asks or largest_value(stmt.extent, known, analyzer) is None:
                why = f"in loop {stmt.name!r} of the unknown extent {stmt.extent!r}"
        elif isinstance(stmt, (If, Block)):
            cond = stmt.cond if isinstance(stmt, If) else stmt.predicate
            changed = [load.buffer.name for load in loads(cond) if load.buffer in written]
            if changed:
                why = f"where {cond!r}, and the kernel writes {changed[0]!r}"
        for child in child_stmts(stmt):
            fault = visit(child, why)
            if fault is not None:
                return fault
        return None

    return visit(kernel.stmt, None)
