"""Reductions whose terms belong to several threads, which combine what each of them has.

A loop over a threadIdx axis that feeds a reduce variable means: each thread reduces its own terms,
then the threads of the block combine their parts, and the first one of them updates the element.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis import accesses, blocks_below, reduces
from schedule.combiner import combiner
from schedule.errors import Illegal
from schedule.state import State
from tensorir import Block, Buffer, For, ForKind, IterKind, Var, variables

AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def cross_thread_conflict(state: State, loop: For) -> Illegal | None:
    """Why threads cannot share the reductions that a thread loop runs; None if they can."""
    below = blocks_below(loop)
    for block in below:
        if not reduces(block, loop.var):
            continue
        if loop.thread not in AXES:
            return Illegal(
                loop.name,
                f"loop {loop.name!r} is a reduction of block {block.name!r}, "
                "and only threads of one block can share one",
                "bind it to threadIdx, or rfactor it to make its iterations independent",
            )
        try:
            store, _ = combiner(block)
        except Illegal as refusal:
            return Illegal(loop.name, f"loop {loop.name!r} reduces, but {refusal.reason}")
        refusal_ = _mixed(state, loop, block) or _used(loop, block, store.buffer, below)
        if refusal_ is not None:
            return refusal_
    return None


def _mixed(state: State, loop: For, block: Block) -> Illegal | None:
    """One element for all threads: nothing from the loop inwards chooses another."""
    around = state.loops_around(block.name)
    spatial: set[Var] = set()
    for it in block.iters:
        if it.kind is not IterKind.REDUCE:
            spatial |= variables(it.binding)
    for inner in around[[f.name for f in around].index(loop.name) :]:
        if inner.var in spatial:
            return Illegal(
                inner.name,
                f"loop {inner.name!r} chooses the element of block {block.name!r} inside "
                f"{loop.name!r}, whose threads share one",
                "reorder it outside",
            )
        if inner.kind is ForKind.VECTORIZED:
            return Illegal(
                inner.name,
                f"loop {inner.name!r} is vectorized inside the shared reduction {loop.name!r}",
            )
    return None


def _used(loop: For, block: Block, buffer: Buffer, below: Sequence[Block]) -> Illegal | None:
    """Before the threads have met, the element is not ready for anybody else."""
    for other in below:
        if other is not block and any(a.buffer is buffer for a in accesses(other)):
            return Illegal(
                loop.name,
                f"block {other.name!r} uses {buffer.name!r} inside loop {loop.name!r}, whose "
                f"threads share the reduction of block {block.name!r}",
                "move it out of the loop",
            )
    return None
