"""Whether the iterations of a loop read only what they wrote themselves."""

from __future__ import annotations

from schedule.analysis import Access, accesses, blocks_below
from schedule.state import State, extents, loops_below
from tensorir import (
    Analyzer,
    Buffer,
    Expr,
    For,
    Interval,
    Var,
    intersect_with,
    is_dense,
    keeps_to_itself,
    relax,
    union,
    variables,
)


def covered(state: State, buffer: Buffer, node: For) -> bool:
    """Whether the part of `buffer` that one iteration of `node` reads is in the part it writes.

    Parts are the hulls of what is touched. An iteration that reads more has it from another one,
    although nothing outside of the loop uses the buffer. Where hulls do not tell, because writes
    are conditional, come after reads or leave gaps, accesses are compared as lowering does.
    """
    found = [a for block in blocks_below(node) for a in accesses(block) if a.buffer is buffer]
    below = loops_below(node.body)
    analyzer = state.analyzer([*state.loops_outside(node.name), node, *below])
    inner = extents(below)
    writes = [a for a in found if a.is_write]
    if not _hulls_tell(state, writes, found, node, inner, analyzer):
        return keeps_to_itself(state.func, node.var, buffer)
    for dim in range(len(buffer.shape)):
        made = _part(writes[0], dim, inner, analyzer)
        for write in writes[1:]:
            part = _part(write, dim, inner, analyzer)
            made = None if made is None or part is None else union(made, part, analyzer)
        if made is None:
            return False
        for read in found:
            part = made if read.is_write else _part(read, dim, inner, analyzer)
            if part is None or not _inside(part, made, analyzer):
                return False
    return True


def _hulls_tell(
    state: State,
    writes: list[Access],
    found: list[Access],
    node: For,
    inner: dict[Var, Expr],
    analyzer: Analyzer,
) -> bool:
    """Whether one block writes all of its hull in every iteration, before others read it."""
    maker = writes[0].block
    if any(a.block is not maker for a in writes) or found[0].block is not maker:
        return False
    if maker.init is None and any(a.block is maker and not a.is_write for a in found):
        return False
    outer = {node.var, *[loop.var for loop in state.loops_outside(node.name)]}
    if outer & variables(maker.predicate):
        return False
    return all(is_dense(a.in_loops(), inner, analyzer) for a in writes)


def _part(access: Access, dim: int, inner: dict[Var, Expr], analyzer: Analyzer) -> Interval | None:
    known = analyzer.assuming(access.block.predicate)
    part = relax(access.in_loops()[dim], inner, known)
    return None if part is None else intersect_with(part, access.buffer.shape[dim], analyzer)


def _inside(part: Interval, whole: Interval, analyzer: Analyzer) -> bool:
    end = whole.low + whole.extent
    return analyzer.prove(whole.low <= part.low) and analyzer.prove(part.low + part.extent <= end)
