"""Whether the iterations of a loop read only what they wrote themselves."""

from __future__ import annotations

from schedule.analysis.uses import Access, accesses, blocks_below
from schedule.state import State, extents, loops_below
from tensorir import (
    TRUE,
    Analyzer,
    Buffer,
    Expr,
    For,
    Interval,
    Var,
    int_value,
    intersect_with,
    is_dense,
    keeps_to_itself,
    relax,
)


def covered(state: State, buffer: Buffer, node: For, trusting: bool = True) -> bool:
    """Whether one iteration of `node` reads nothing of `buffer` but what it wrote before.

    Else it has it from another one, although nothing outside of the loop uses the buffer. Lowering
    gives each iteration memory of its own on that ground, and accesses are compared as it does.
    Not `trusting`, reads that were added are not taken to be of what has a value.
    """
    if _plainly_covered(state, buffer, node):
        return True
    return keeps_to_itself(state.func, node.var, buffer, trusting)


def _plainly_covered(state: State, buffer: Buffer, node: For) -> bool:
    """Whether one block writes all of a box, and blocks after its loops read in that only: the
    usual case, and quicker to see."""
    found = [a for block in blocks_below(node) for a in accesses(block) if a.buffer is buffer]
    made = next((a for a in found if a.is_write), None)
    if made is None or made.block.predicate is not TRUE:
        return False
    maker, reads = made.block, [a for a in found if a.block is not made.block]
    if any([a.is_write for a in reads]) or found[0].block is not maker:
        return False
    if maker.init is None and any([a is not made for a in found if a.block is maker]):
        return False
    outside = [*state.loops_outside(node.name), node]
    own = state.loops_around(maker.name)[len(outside) :]
    if any([f in own for a in reads for f in state.loops_around(a.block.name)]):
        return False
    if not all([(int_value(f.extent) or 0) > 0 for f in own]):
        return False
    below = loops_below(node.body)
    analyzer, inner = state.analyzer([*outside, *below]), extents(below)
    indices = made.in_loops()
    if any([e.has_loads for a in found for e in a.in_loops()]):
        return False
    if not is_dense(indices, inner, analyzer):
        return False
    for dim, index in enumerate(indices):
        part = relax(index, inner, analyzer)
        if part is None or not all([_inside(a, dim, part, inner, analyzer) for a in reads]):
            return False
    return True


def _inside(
    read: Access, dim: int, whole: Interval, inner: dict[Var, Expr], analyzer: Analyzer
) -> bool:
    part = relax(read.in_loops()[dim], inner, analyzer.assuming(read.block.predicate))
    if part is None:
        return False
    part = intersect_with(part, read.buffer.shape[dim], analyzer)
    end = whole.low + whole.extent
    return analyzer.prove(whole.low <= part.low) and analyzer.prove(part.low + part.extent <= end)
