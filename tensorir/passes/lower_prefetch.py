"""lower_prefetch: loops that are annotated so ask for memory some iterations ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.regions.region import Interval, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.stmt import Block, For, ForKind, Prefetch, Seq, Stmt, replace, seq
from tensorir.visit import (
    blocks,
    loads,
    map_children,
    stmt_exprs,
    substitute,
    variables,
    walk,
)

LINE = 64
"""Bytes of a cache line."""

MOST_LINES = 64
"""A processor forgets requests beyond a few dozen."""


def lower_prefetch(func: PrimFunc) -> PrimFunc:
    """Put the prefetches that a loop's annotation names at the start of its body.

    rewrite:
        for i in range(8, annotations={           for i in range(8):
                "prefetch": [["C", "A", 2]]}):        prefetch(A[i + 2, 0])
            with block("C"):                  ->      with block("C"):
                ...  # reads A[i, :16]                    ...

    There is one for each cache line of what an iteration reads. Rows that the loop
    does not reach are asked for too: a prefetch has no effect that a program could see. Requires
    that blocks are there.
    """
    if not any("prefetch" in s.annotations for s in walk(func.body) if isinstance(s, For)):
        return func
    analyzer, fresh = function_analyzer(func), fresh_names(func.body)
    known = {b.name: b for b in (*func.params, *func.buffers)}

    def visit(stmt: Stmt) -> Stmt:
        result = map_children(stmt, visit)
        if not isinstance(stmt, For) or not isinstance(result, For):
            return result
        named = {b.name: b for b in blocks(stmt)}
        made: list[Stmt] = []
        for block, buffer, distance in stmt.annotations.get("prefetch", ()):
            source = known.get(buffer)
            if block not in named or source is None or is_made_in(stmt, source):
                continue
            region = prefetch_region(stmt, named[block], source, analyzer)
            if region is not None:
                ahead = {stmt.var: stmt.var + distance}
                made.append(_requests(source, region, ahead, fresh))
        return replace(result, body=seq(*made, result.body)) if made else result

    return with_body(func, visit(func.body))


def is_made_in(loop: For, buffer: Buffer) -> bool:
    """Whether a loop writes a buffer: what a later iteration reads may not be there yet, nor the
    memory, which is allocated as far in as it can be."""
    found = (touch for stmt in walk(loop) for touch in touched(stmt))
    return any(made is buffer and is_write for made, _, is_write in found)


def prefetch_region(
    loop: For, block: Block, buffer: Buffer, analyzer: Analyzer
) -> list[Interval] | None:
    """What `block` reads of `buffer` in one iteration of `loop`, an interval for each dimension.

    None where that has no constant size, or more than MOST_LINES cache lines.
    """
    inner = {s.var: s.extent for s in walk(loop.body) if isinstance(s, For)}
    region: list[Interval] = []
    for load in _reads(block, buffer):
        if any([next(loads(index), None) is not None for index in load]):
            return None  # the index of a later iteration would be read outside of its buffer
        found = [relax(index, inner, analyzer) for index in load]
        if None in found:
            return None
        mine = [f for f in found if f is not None]
        joined = [union(a, b, analyzer) for a, b in zip(region or mine, mine)]
        if None in joined:
            return None
        region = [j for j in joined if j is not None]
    if not region or any(int_value(r.extent) is None for r in region):
        return None
    own = {it.var for each in blocks(loop) for it in each.iters}
    if any(variables(part.low) & own for part in region):
        return None  # it is told by the variables of a block around, which the loop does not see
    return region if prod(n for n, _ in _steps(buffer, region)) <= MOST_LINES else None


def _reads(block: Block, buffer: Buffer) -> list[tuple[Expr, ...]]:
    """The indices of the loads of `buffer`, in terms of the loops around the block."""
    bound = {it.var: it.binding for it in block.iters}
    found: dict[Load, None] = {}
    for stmt in walk(block.body):
        for e in stmt_exprs(stmt):
            found.update((n, None) for n in loads(e) if n.buffer is buffer)
    return [tuple([substitute(index, bound) for index in n.indices]) for n in found]


def _steps(buffer: Buffer, region: Sequence[Interval]) -> list[tuple[int, int]]:
    """How many requests there are along each dimension, and how many elements lie between. A line
    has several values of a dimension behind which all elements are read."""
    found: list[tuple[int, int]] = []
    step = max(1, LINE // dt.itemsize(buffer.dtype))
    for part, extent in reversed(list(zip(region, buffer.shape))):
        size = int_value(part.extent) or 0
        found.insert(0, (-(-size // step), step))
        step = max(1, step // max(1, size)) if int_value(extent) == size else 1
    return found


def _requests(
    buffer: Buffer,
    region: Sequence[Interval],
    ahead: dict[Var, Expr],
    fresh: Callable[[str], str],
) -> Stmt:
    indices: list[Expr] = []
    loops: list[For] = []
    for n, (part, (count, step)) in enumerate(zip(region, _steps(buffer, region))):
        index = substitute(part.low, ahead)
        if count > 1:
            extent = Const(count, dt.INDEX)
            loop = For(Var(fresh(f"ahead{n}")), extent, Seq(()), ForKind.UNROLLED)
            loops.append(loop)
            index = index + loop.var * step
        indices.append(index)
    body: Stmt = Prefetch(buffer, tuple(indices))
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body
