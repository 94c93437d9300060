"""elementwise: each thread computes elements of its own, side by side with its neighbours'."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from schedule.analysis.uses import accesses, plain_stores
from schedule.errors import require
from schedule.library.gpu.steps import all_or_nothing, bind_blocks, fuse_for_blocks, vector_of
from schedule.state import LoopRef
from tensorir import Analyzer, Block, Buffer, Expr, Gpu, IterKind, Var, int_value, variables

if TYPE_CHECKING:
    from schedule.schedule import Schedule


class Elementwise(NamedTuple):
    """The parts of the schedule, for steps that follow.

    loop    the loop bound to blocks of threads
    thread  the loop bound to their threads
    """

    loop: LoopRef
    thread: LoopRef


def elementwise(
    sch: Schedule,
    block: str,
    *,
    threads: int = 8 * Gpu.warp,
    items: int = 1,
    vector: int | None = None,
    epilogue: str | None = None,
) -> Elementwise:
    """Schedule a block whose elements are computed one by one, each with all of its terms if it is
    a reduction, for a GPU.

    Neighbouring threads have neighbours in memory of what is stored. Extents need not divide.

    threads   of a block
    items     pieces of a thread, so many blocks' widths apart; loads of all of them are under way
              at once
    vector    elements of a piece, side by side along the last axis, as far as rows begin at
              multiples of that; None is as many as one access moves
    epilogue  an elementwise block that alone reads what a reduction makes, computed with it

    Raises ScheduleError where the block stores elsewhere than at its own variables, or its loops
    were changed before.
    """
    with all_or_nothing(sch, f"gpu.elementwise({str(block)!r})"):
        require(threads > 0 and items > 0, block, f"{threads} threads of {items} items are too few")
        last = block if epilogue is None else epilogue
        axes = axes_of(sch, last)
        if not axes:
            around = sch.get_loops(last)
            axes = [sch.add_unit_loop(around[0] if around else last)]
        width = min(vector or Gpu.access_bytes, widest(sch, block), widest(sch, last))
        lanes: list[LoopRef] = []
        if width > 1:
            axes[-1], lane = sch.split(axes[-1], [None, width])
            lanes = [lane]
        loops = fuse_for_blocks(sch, axes)
        known = sch.state.loop(loops[-1]).const_extent
        threads = threads if known is None else min(threads, max(1, known))
        piece = [items] if items > 1 else []
        over, *item, thread = sch.split(loops[-1], [None, *piece, threads])
        sch.reorder(over, thread, *item, *lanes)
        if epilogue is not None:
            sch.compute_at(block, (item or [thread])[0])
            sch.set_scope(block, 0, "local")
        for each in item:
            sch.unroll(each)
        for each in lanes:
            sch.vectorize(each)
        loop = bind_blocks(sch, [*loops[:-1], over])
        sch.bind(thread, "threadIdx.x")
        return Elementwise(loop, thread)
    raise AssertionError


def axes_of(sch: Schedule, block: str) -> list[LoopRef]:
    """The loops over the elements that a block makes, in the order of their axes in memory, with
    those of terms brought inside."""
    node, around = sch.state.block(block), sch.get_loops(block)
    stores = plain_stores(node)
    where = f"block {block!r} does not store at its own variables"
    require(stores is not None, block, where, "leave it as it is: lowering binds what is free")
    assert stores is not None
    names = {sch.state.loop(loop).var: loop for loop in around}
    own = {it.var: it.binding for it in node.iters if it.kind is IterKind.SPATIAL}
    plain = all(isinstance(b, Var) and b in names or int_value(b) == 0 for b in own.values())
    changed = f"the loops of block {block!r} were changed before"
    require(plain, block, changed, "schedule its elements first")
    order = [own[i] for i in stores[1] if isinstance(i, Var) and i in own]
    axes = [names[b] for b in order if isinstance(b, Var)]
    terms = [loop for loop in around if loop not in axes]
    if len(around) > 1:
        sch.reorder(*axes, *terms)
    return axes


def widest(sch: Schedule, block: str) -> int:
    """Elements side by side along the last axis that one access can move, in all arrays that the
    block touches there."""
    node = sch.state.block(block)
    stores = plain_stores(node)
    if stores is None or not stores[1] or any(it.kind is IterKind.REDUCE for it in node.iters):
        return 1
    last = stores[1][-1]
    if not isinstance(last, Var) or not node.iters or _binding(node, last) is None:
        return 1
    found = [_aligned(access.indices, access.buffer, last) for access in accesses(node)]
    return min(found, default=1)


def _binding(node: Block, var: Var) -> Expr | None:
    return next((it.binding for it in node.iters if it.var is var), None)


def _aligned(indices: tuple[Expr, ...], buffer: Buffer, var: Var) -> int:
    """Elements of a piece along `var` that lie side by side, at a multiple of their bytes."""
    if not any(var in variables(index) for index in indices):
        return Gpu.access_bytes
    if any(var in variables(index) for index in indices[:-1]):
        return 1
    offset = Analyzer().simplify(indices[-1] - var)
    start = int_value(offset)
    if start is None:
        return 1
    lanes = vector_of(buffer)
    while lanes > 1 and start % lanes:
        lanes //= 2
    return lanes
