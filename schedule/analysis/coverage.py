"""Whether the iterations of a loop read only what they wrote themselves."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import Access, accesses, blocks_below
from schedule.state import State, extents, loops_below
from tensorir import (
    TRUE,
    Analyzer,
    Box,
    Buffer,
    Expr,
    For,
    Var,
    all_of,
    const,
    int_value,
    intersect_with,
    is_dense,
    keeps_to_itself,
    relax,
    with_box,
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
    """Whether blocks write all of a box, and blocks after their loops read in that only: the usual
    case, and quicker to see. Of loops that all of them share, one iteration alone is looked at."""
    found = [a for block in blocks_below(node) for a in accesses(block) if a.buffer is buffer]
    writes = [a for a in found if a.is_write]
    makers = {a.block.name: a for a in writes}
    own = [a for a in found if a.block.name in makers]
    reads = found[len(own) :]
    if not writes or found[: len(own)] != own or len(makers) < len(writes):
        return False
    if own != writes and (len(makers) > 1 or writes[0].block.init is None):
        return False
    node = _innermost(state, [a.block.name for a in found])
    outside = len(state.loops_outside(node.name)) + 1
    around = [f for name in makers for f in state.loops_around(name)[outside:]]
    if any([f in around for a in reads for f in state.loops_around(a.block.name)]):
        return False
    if not all([(int_value(f.extent) or 0) > 0 for f in around]):
        return False
    below = loops_below(node.body)
    analyzer = state.analyzer([*state.loops_outside(node.name), node, *below])
    if any([e.has_loads for a in found for e in a.in_loops()]):
        return False
    inner = extents(below)
    boxes: list[Box] = []
    for made in writes:
        box = _filled(made, inner, analyzer)
        if box is None:
            return False
        boxes = with_box(boxes, box, analyzer)
    return all([_inside(a, boxes[-1], inner, analyzer) for a in reads])


def _innermost(state: State, blocks: Sequence[str]) -> For:
    """The innermost loop around all of some blocks, of which there is one."""
    first, *others = [state.loops_around(block) for block in dict.fromkeys(blocks)]
    return [f for f in first if all([f in each for each in others])][-1]


def _filled(made: Access, inner: dict[Var, Expr], analyzer: Analyzer) -> Box | None:
    """The box all of whose elements that are in the buffer an access writes; None if it leaves out
    some."""
    indices, shape = made.in_loops(), made.buffer.shape
    if made.block.predicate is not TRUE:
        sides = [(0 <= index, index < size) for index, size in zip(indices, shape)]
        known = analyzer.assuming(all_of(*[side for pair in sides for side in pair]))
        if not known.prove(made.block.predicate):
            return None
    if not is_dense(indices, inner, analyzer):
        return None
    parts = [relax(index, inner, analyzer) for index in indices]
    box = tuple([part for part in parts if part is not None])
    return box if len(box) == len(parts) else None


def _inside(read: Access, box: Box, inner: dict[Var, Expr], analyzer: Analyzer) -> bool:
    known = analyzer.assuming(read.block.predicate)
    for whole, index, size in zip(box, read.in_loops(), read.buffer.shape):
        if whole.low is const(0) and whole.extent is size:  # all there is
            continue
        part = relax(index, inner, known)
        if part is None:
            return False
        if part.low is whole.low and part.extent is whole.extent:
            continue
        part = intersect_with(part, size, analyzer)
        end = whole.low + whole.extent
        if not analyzer.prove(whole.low <= part.low):
            return False
        if not analyzer.prove(part.low + part.extent <= end):
            return False
    return True
