"""Programs for GPUs: which loops may be thread axes, and what threads may share.

A kernel is one statement of the function's outermost sequence. A loop bound to an axis has one
iteration per index of that axis; "local" memory belongs to one thread, "shared" memory to one
block of threads, and "global" memory to all. Threads of a block wait for each other between
loops over threadIdx; blocks of threads never do. `thread_conflict` is asked about every program
with thread loops, whichever primitive makes it. Reductions shared by threads: cross_thread.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from schedule.analysis import Access, accesses, blocks_below
from schedule.cross_thread import cross_thread_conflict
from schedule.errors import Illegal
from schedule.state import State, extents, loops_below
from tensorir import Analyzer, Buffer, For, ForKind, Seq, Stmt, binary, conflict

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
VIRTUAL_AXES = ("vthread.x",)
AXES = (*BLOCK_AXES, *THREAD_AXES, *VIRTUAL_AXES)
"""What a loop can be bound to; vthread.x: virtual threads, run by one thread."""

MAX_THREADS = 1024
LARGEST = {
    "blockIdx.x": 2**31 - 1,
    "blockIdx.y": 65535,
    "blockIdx.z": 65535,
    "threadIdx.x": MAX_THREADS,
    "threadIdx.y": MAX_THREADS,
    "threadIdx.z": 64,
    "vthread.x": MAX_THREADS,
}
"""Limits of every CUDA device of compute capability 3.0 and above (CUDA C++ Programming
Guide, technical specifications per compute capability)."""


def thread_conflict(state: State) -> Illegal | None:
    """Why threads cannot run the program as it is; None if they can, or if there are none."""
    if ForKind.THREAD not in state.kinds:
        return None
    bound = [loop for loop in state.loops() if loop.kind is ForKind.THREAD]
    for loop in bound:
        refusal = cross_thread_conflict(state, loop) or _misplaced(state, loop)
        if refusal is not None:
            return refusal
    body = state.func.body
    for kernel in body.stmts if isinstance(body, Seq) else (body,):
        refusal = _sizes(state, kernel)
        if refusal is not None:
            return refusal
    for buffer, found in _shared_buffers(state):
        refusal = _visible(state, buffer, found) or _races(state, buffer, bound)
        if refusal is not None:
            return refusal
    return None


def _thread_loops(stmt: Stmt) -> list[For]:
    return [loop for loop in loops_below(stmt) if loop.kind is ForKind.THREAD]


def _misplaced(state: State, loop: For) -> Illegal | None:
    """The order of axes: blockIdx outermost, then threads; no axis inside itself."""
    name = loop.name
    for outer in state.loops_outside(name):
        if outer.kind in (ForKind.VECTORIZED, ForKind.PARALLEL):
            return Illegal(name, f"thread loop {name!r} is inside the {outer.kind} {outer.name!r}")
        if loop.thread in BLOCK_AXES and outer.thread not in BLOCK_AXES:
            return Illegal(
                name,
                f"loop {name!r}, bound to {loop.thread}, is inside loop {outer.name!r}, "
                "which is bound to no block axis",
                "blockIdx loops are the outermost of a kernel: reorder them",
            )
        if outer.thread == loop.thread:
            return Illegal(
                name, f"loops {outer.name!r} and {name!r}, one inside the other, are {loop.thread}"
            )
    for inner in loops_below(loop.body):
        if inner.kind is ForKind.PARALLEL:
            return Illegal(
                inner.name, f"the parallel loop {inner.name!r} is inside thread loop {name!r}"
            )
    return None


def _sizes(state: State, kernel: Stmt) -> Illegal | None:
    """One extent for each axis of a kernel, and no more threads than a block can have."""
    first: dict[str, For] = {}
    analyzer = state.analyzer()
    for loop in _thread_loops(kernel):
        axis, size = loop.thread or "", loop.const_extent
        if axis not in AXES:
            return Illegal(loop.name, f"{loop.thread!r} of loop {loop.name!r} is no thread axis")
        if axis not in BLOCK_AXES and size is None:
            return Illegal(
                loop.name,
                f"the extent {loop.extent!r} of loop {loop.name!r} is not a number",
                f"split it by a number and bind the inner part to {axis}",
            )
        if size is not None and not 1 <= size <= LARGEST[axis]:
            most = LARGEST[axis]
            return Illegal(
                loop.name, f"loop {loop.name!r} has extent {size}; {axis} takes 1 to {most}"
            )
        other = first.setdefault(axis, loop)
        if not analyzer.prove(binary("==", other.extent, loop.extent)):
            return Illegal(
                loop.name,
                f"loops {other.name!r} and {loop.name!r} of one kernel are both bound to {axis}, "
                f"with extents {other.extent!r} and {loop.extent!r}",
                "split them so that the bound parts have the same extent",
            )
    count = prod(loop.const_extent or 1 for axis, loop in first.items() if axis in THREAD_AXES)
    if count > MAX_THREADS:
        loops = [loop for axis, loop in first.items() if axis in THREAD_AXES]
        names = ", ".join(f"{loop.name!r}" for loop in loops)
        return Illegal(
            loops[-1].name,
            f"loops {names} make {count} threads per block; a block has at most {MAX_THREADS}",
        )
    return None


def _shared_buffers(state: State) -> Iterator[tuple[Buffer, list[Access]]]:
    """The buffers that the program writes, with all accesses of each."""
    found: dict[Buffer, list[Access]] = {}
    for name in state.block_names():
        for access in accesses(state.block(name)):
            found.setdefault(access.buffer, []).append(access)
    for buffer, uses in found.items():
        if any(a.is_write for a in uses):
            yield buffer, uses


def _threads_around(state: State, access: Access, axes: tuple[str, ...]) -> list[For]:
    return [loop for loop in state.loops_around(access.block.name) if loop.thread in axes]


def _visible(state: State, buffer: Buffer, found: list[Access]) -> Illegal | None:
    """Who shares memory is inside the same loops; blocks of threads never wait for each other."""
    axes, owner = OWNERS[buffer.scope]
    places: dict[Stmt, list[Access]] = {}
    for access in found:
        places.setdefault(_kernel(state, access), []).append(access)
    kernels = [found] if buffer.scope != "global" else list(places.values())
    for uses in kernels:
        first = _threads_around(state, uses[0], axes)
        for access in uses[1:]:
            here = _threads_around(state, access, axes)
            same = len(first) == len(here) and all(a is b for a, b in zip(first, here))
            if same and (len(places) == 1 or buffer.scope == "global" or not any_threads(places)):
                continue
            return Illegal(
                access.block.name,
                f"{buffer.name!r} is in {buffer.scope} memory, which {owner}, and blocks "
                f"{uses[0].block.name!r} and {access.block.name!r} use it in different ones",
                "compute them inside the same thread loops, or in different kernels through "
                "global memory",
            )
    return None


OWNERS = {
    "local": (AXES, "belongs to one thread"),
    "shared": (BLOCK_AXES, "belongs to one block of threads"),
    "global": (BLOCK_AXES, "blocks of threads share without waiting for each other"),
}
"""The axes that those who may share memory of a scope have in common, in words."""


def any_threads(kernels: Iterable[Stmt]) -> bool:
    """Whether one of the statements has a loop over threads."""
    return any(_thread_loops(kernel) for kernel in kernels)


def _kernel(state: State, access: Access) -> Stmt:
    path = state.block_path(access.block.name)
    return path[1] if isinstance(path[0], Seq) else path[0]


def _races(state: State, buffer: Buffer, bound: list[For]) -> Illegal | None:
    """Two threads never touch one element within one loop over them, one of them writing."""
    for loop in bound:
        if buffer.scope == "local" or (buffer.scope == "shared" and loop.thread in BLOCK_AXES):
            continue
        here = [a for b in blocks_below(loop) for a in accesses(b) if a.buffer is buffer]
        if not any(a.is_write for a in here):
            continue
        below = loops_below(loop)
        analyzer: Analyzer = state.analyzer([*state.loops_outside(loop.name), *below])
        reason = conflict(here, loop, extents(below), analyzer)
        if reason is not None:
            scope = "local" if loop.thread not in BLOCK_AXES else "shared or local"
            hint = f"set_scope it to {scope} memory" if buffer in state.func.buffers else None
            return Illegal(loop.name, f"{reason} ({loop.thread})", hint)
    return None
