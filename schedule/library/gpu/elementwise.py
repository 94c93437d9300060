"""elementwise: each thread computes elements of its own, side by side with its neighbours'."""

from __future__ import annotations

from math import prod

from schedule.analysis.uses import accesses, plain_stores
from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.contraction.find import flat_index
from schedule.library.gpu.steps import (
    bind_kernel,
    fuse_for_blocks,
    in_memory,
    last_axis,
    read_once,
    vector_of,
    write_out,
)
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import (
    Access,
    Analyzer,
    Block,
    Expr,
    ForKind,
    Gpu,
    IterKind,
    Load,
    Var,
    checked,
    const,
    int_value,
    slope,
    substitute,
    variables,
)

FEW = 32
"""Terms of a sum that a thread writes out, at the most."""


@checked
def elementwise(
    sch: Schedule,
    block: str,
    *,
    threads: int = 8 * Gpu.warp,
    items: int = 1,
    vector: int | None = None,
    epilogue: str | None = None,
) -> LoopRef:
    """Schedule a block whose elements are computed one by one, each with all of its terms if it is
    a reduction, for a GPU.

    Neighbouring threads have neighbours in memory of what is stored. Extents need not divide.

    threads   of a block
    items     pieces of a thread, so many blocks' widths apart; loads of all of them are under way
              at once
    vector    elements of a piece, side by side along the last axis, as far as rows begin at
              multiples of that; None is as many as one access moves
    epilogue  an elementwise block that alone reads what a reduction makes, computed with it

    Returns the loop that is bound to blocks of threads.
    Raises ScheduleError where the block stores elsewhere than at its own variables, or its loops
    were changed before.
    """
    with all_or_nothing(sch, f"gpu.elementwise({str(block)!r})"):
        require(threads > 0 and items > 0, block, f"{threads} threads of {items} items are too few")
        last = epilogue or _of_sums(sch, block)
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
        if last != block:
            sch.compute_at(block, (item or [thread])[0])
            sch.set_scope(block, 0, "local")
        if item:
            read_once(sch, last, thread)
        write_out(sch, item)
        for each in lanes:
            sch.vectorize(each)
        if last != block:
            _write_terms_out(sch, block, thread)
        return bind_kernel(sch, [*loops[:-1], over], {"threadIdx.x": [thread]})


def _write_terms_out(sch: Schedule, block: str, thread: LoopRef) -> None:
    """Write a thread's loops over few terms out, so that it reads neighbours at once."""
    around = sch.get_loops(block)
    inside = [(loop, sch.state.loop(loop)) for loop in around[around.index(thread) + 1 :]]
    terms = [(loop, node) for loop, node in inside if node.kind is ForKind.SERIAL]
    if prod(node.const_extent or FEW + 1 for _, node in terms) <= FEW:
        write_out(sch, [loop for loop, _ in terms])


def _of_sums(sch: Schedule, block: str) -> str:
    """The block that stores what another one adds up in registers; itself where it is no sum, or
    has several values."""
    node = sch.state.block(block)
    made = sum(access.is_write for access in accesses(node))
    adds = any(it.kind is IterKind.REDUCE for it in node.iters) and made == 1
    return str(sch.cache_write(block, 0, "local")) if adds else block


def axes_of(sch: Schedule, block: str) -> list[LoopRef]:
    """The loops over the elements that a block makes, in the order of their axes in memory, with
    those of terms brought inside."""
    node, around = sch.state.block(block), sch.get_loops(block)
    stored = stored_at(node)
    where = f"block {block!r} does not store at its own variables"
    require(stored is not None, block, where, "leave it as it is: lowering binds what is free")
    assert stored is not None
    names = {sch.state.loop(loop).var: loop for loop in around}
    own = {it.var: it.binding for it in node.spatial}
    plain = all(isinstance(b, Var) and b in names or int_value(b) == 0 for b in own.values())
    changed = f"the loops of block {block!r} were changed before"
    require(plain, block, changed, "schedule its elements first")
    order = [own[i] for i in stored if i in own]
    axes = [names[b] for b in order if isinstance(b, Var)]
    terms = [loop for loop in around if loop not in axes]
    if len(around) > 1:
        sch.reorder(*axes, *terms)
    return axes


def stored_at(node: Block) -> list[Var] | None:
    """The variables at which a block stores, neighbours in memory along the last one; None where it
    stores in several places, or not at variables."""
    stores = plain_stores(node)
    if stores is not None:
        return [i for i in stores[1] if isinstance(i, Var)]
    writes = [a for a in accesses(node) if a.is_write]
    again = any(a.buffer is w.buffer for w in writes for a in accesses(node) if a is not w)
    return None if again or len(writes) != 1 else in_memory(writes[0]) or None


def widest(sch: Schedule, block: str) -> int:
    """Elements side by side along the last axis that one access can move, in all arrays that the
    block touches there."""
    node = sch.state.block(block)
    stored = stored_at(node)
    if not stored or any(it.kind is IterKind.REDUCE for it in node.iters):
        return 1
    last = stored[-1]
    if not node.iters or _binding(node, last) is None:
        return 1
    return min((_aligned(access, last) for access in accesses(node)), default=1)


def _binding(node: Block, var: Var) -> Expr | None:
    return next((it.binding for it in node.iters if it.var is var), None)


def _aligned(access: Access, var: Var) -> int:
    """Elements of a piece along `var` that lie side by side, at a multiple of their bytes.

    Rows begin at multiples of as many: where no other index has the variable, the last one tells.
    """
    indices, buffer = access.indices, access.buffer
    if not any(var in variables(index) for index in indices):
        return Gpu.access_bytes
    last = last_axis(buffer)
    across = any(var in variables(index) for index in indices[:last])
    place = flat_index(Load(buffer, indices)) if across else indices[last]
    analyzer = Analyzer({it.var: it.extent for it in access.block.iters})
    place, lanes = analyzer.simplify(place), vector_of(buffer)
    used = variables(place)
    steps = [slope(place, v, analyzer) for v in used if v is not var]
    start = int_value(analyzer.simplify(substitute(place, {v: const(0) for v in used})))
    if slope(place, var, analyzer) != 1 or start is None:
        return 1
    while lanes > 1 and any(step is None or step % lanes for step in (*steps, start)):
        lanes //= 2
    return lanes
