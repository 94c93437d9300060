"""Whether the iterations of a loop read only what they wrote themselves."""

from __future__ import annotations

from schedule.analysis import Access, accesses, blocks_below
from schedule.state import State, extents, loops_below
from tensorir import Analyzer, Buffer, Expr, For, Interval, Var, intersect_with, relax, union


def covered(state: State, buffer: Buffer, node: For) -> bool:
    """Whether the part of `buffer` that one iteration of `node` reads is in the part it writes.

    Parts are the hulls of what is touched. An iteration that reads more has it from another one,
    although nothing outside of the loop uses the buffer.
    """
    found = [a for block in blocks_below(node) for a in accesses(block) if a.buffer is buffer]
    below = loops_below(node.body)
    analyzer = state.analyzer([*state.loops_outside(node.name), node, *below])
    inner = extents(below)
    writes = [a for a in found if a.is_write]
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


def _part(access: Access, dim: int, inner: dict[Var, Expr], analyzer: Analyzer) -> Interval | None:
    part = relax(access.in_loops()[dim], inner, analyzer)
    return None if part is None else intersect_with(part, access.buffer.shape[dim], analyzer)


def _inside(part: Interval, whole: Interval, analyzer: Analyzer) -> bool:
    end = whole.low + whole.extent
    return analyzer.prove(whole.low <= part.low) and analyzer.prove(part.low + part.extent <= end)
