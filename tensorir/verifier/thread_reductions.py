"""Reductions whose terms belong to several threads, which combine what each of them has.

A loop over threads that feeds a reduce variable means: each thread reduces its own terms, over all
steps of the serial loops of the reduction, and where the outermost loop of the reduction ends the
threads combine their parts, once; the element is then seen by all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.analysis.block_accesses import accesses, reduces
from tensorir.analysis.combiner import ASSOCIATIVE, combiner_of
from tensorir.analysis.dependence import carries
from tensorir.buffer import Buffer
from tensorir.stmt import Block, For, ForKind, IterKind
from tensorir.targets.thread_axes import REAL_AXES
from tensorir.verifier.kernels import Fault, Kernel
from tensorir.visit import variables


def reduction_fault(kernel: Kernel) -> Fault | None:
    """Why threads cannot share the reductions of a kernel; None if they can."""
    for block, loops in kernel.units:
        if not block.is_reduction:
            continue
        feeding = [loop for loop in loops if reduces(block, loop.var)]
        shared = [loop for loop in feeding if loop.kind is ForKind.THREAD]
        if not shared:
            continue
        within = loops[loops.index(feeding[0]) :]
        fault = (
            _axes(block, shared)
            or _combined(block, shared[0])
            or _one_element(block, within, shared[0])
            or _used(kernel, block, feeding[0])
        )
        if fault is not None:
            return fault
    return None


def _axes(block: Block, shared: Sequence[For]) -> Fault | None:
    for loop in shared:
        if loop.thread not in REAL_AXES:
            return Fault(
                loop.name,
                f"loop {loop.name!r} is a reduction of block {block.name!r}, "
                "and only threads of one block can share one",
                "bind it to threadIdx, or rfactor it to make its iterations independent",
            )
    return None


def _combined(block: Block, loop: For) -> Fault | None:
    """Whether it is known how two parts are combined, each of which starts like the whole."""
    name = block.name
    reason = None
    found = combiner_of(block)
    if block.init is None:
        reason = f"of block {name!r} the init was split off"
    elif found is None:
        reason = (
            f"block {name!r} does not reduce by one of {' '.join(ASSOCIATIVE)}, nor by a combiner "
            "that is found to be associative and commutative"
        )
    elif not found.restarts:
        first = found.start[0] if len(found.start) == 1 else found.start
        reason = (
            f"block {name!r} starts from {first!r}, which every part of the reduction would add "
            "again"
        )
    else:
        carried = [store.buffer.name for store in found.stores if carries(block, store.buffer)]
        if carried:
            reason = f"block {name!r} uses {carried[0]!r} in other ways than to update it"
    return reason and Fault(loop.name, f"loop {loop.name!r} reduces, but {reason}") or None


def _one_element(block: Block, within: Sequence[For], shared: For) -> Fault | None:
    """A thread has one part: from the outermost loop of the reduction on, only threads choose
    elements."""
    spatial = {
        var
        for it in block.iters
        if it.kind is not IterKind.REDUCE
        for var in variables(it.binding)
    }
    for loop in within:
        if loop.var in spatial and reduces(block, loop.var):
            return Fault(
                loop.name,
                f"loop {loop.name!r} is a reduction of block {block.name!r}, which threads share, "
                "and chooses its element too",
                "split it into a loop that chooses and one that reduces",
            )
        if loop.var in spatial and loop.thread not in REAL_AXES:
            return Fault(
                loop.name,
                f"loop {loop.name!r} chooses the element of block {block.name!r} inside loop "
                f"{within[0].name!r} of a reduction that the threads of {shared.name!r} share",
                "reorder it outside",
            )
        if loop.kind is ForKind.VECTORIZED:
            return Fault(
                loop.name,
                f"loop {loop.name!r} is vectorized inside the shared reduction {within[0].name!r}",
            )
    return None


def _used(kernel: Kernel, block: Block, outermost: For) -> Fault | None:
    """Before the threads have met, the element is not ready for anybody else."""
    made: set[Buffer] = {a.buffer for a in accesses(block) if a.is_write}
    for other, loops in kernel.units:
        if other is block or outermost not in loops:
            continue
        for access in accesses(other):
            if access.buffer in made:
                return Fault(
                    outermost.name,
                    f"block {other.name!r} uses {access.buffer.name!r} inside loop "
                    f"{outermost.name!r}, whose threads share the reduction of block "
                    f"{block.name!r}",
                    "move it out of the loop",
                )
    return None
