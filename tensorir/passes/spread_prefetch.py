"""spread_prefetch: ask for what a later iteration of an outer loop needs, little by little.

`prefetch` at the outer loop would ask for a whole row at once; here an inner loop that computes
asks for a few cache lines in each iteration, so memory works meanwhile. Softmax of 128x30522 takes
0.64 of the time, 4096x1024, with two rows at a time, 0.82; two rows at a time without it are slower
than one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.regions.region import Interval, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.lower_prefetch import LINE
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.stmt import Block, For, ForKind, Prefetch, Stmt, Store, replace, seq
from tensorir.visit import blocks, loads, map_children, stmt_exprs, substitute, walk

MOST_AT_ONCE = 16
"""Requests of one iteration, beyond which they no longer are spread over anything."""

KEY = "spread_prefetch"


def spread_prefetch(func: PrimFunc) -> PrimFunc:
    """Put the prefetches that a loop's annotation names at the start of its body.

    rewrite:
        for i in range(8):                            for i in range(8):
            for j in range(4, annotations={               for j in range(4):
                "spread_prefetch": [                          prefetch(A[i + 1, j * 16])
                    ["C", "A", "i", 1]]}):       ->           with block("B"):
                with block("B"): ...                              ...
            for k in range(64):                           for k in range(64):
                with block("C"):                              with block("C"):
                    ...  # reads A[i, k]                          ...

    The cache lines of what the block touches in an iteration of the outer loop are shared out to
    the iterations of the inner one. Rows that the outer loop does not reach are asked for too: a
    prefetch has no effect that a program could see. Requires that blocks are there.
    """
    if not any(KEY in s.annotations for s in walk(func.body) if isinstance(s, For)):
        return func
    analyzer, fresh = function_analyzer(func), fresh_names(func.body)
    params = {p.name: p for p in func.params}

    def visit(stmt: Stmt, around: tuple[For, ...]) -> Stmt:
        inside = (*around, stmt) if isinstance(stmt, For) else around
        result = map_children(stmt, lambda child: visit(child, inside))
        if not isinstance(stmt, For) or not isinstance(result, For):
            return result
        made: list[Stmt] = []
        for block, buffer, loop, distance in stmt.annotations.get(KEY, ()):
            at = next((n for n, f in enumerate(around) if f.name == loop), None)
            if at is None or buffer not in params:
                continue
            part = part_of(around[at], block, params[buffer], analyzer)
            count = requests(part, params[buffer], inside[at + 1 :]) if part else None
            if part and count is not None:
                ahead = {around[at].var: around[at].var + distance}
                part = part._replace(first=[substitute(index, ahead) for index in part.first])
                made.append(_ask(params[buffer], part, inside[at + 1 :], count, fresh))
        return replace(result, body=seq(*made, result.body)) if made else result

    return with_body(func, visit(func.body, ()))


class Part(NamedTuple):
    """A part of a buffer: where it begins, and `rows` along its outer dimensions of `run` elements
    each that follow each other in memory."""

    first: list[Expr]
    rows: tuple[int, ...]
    run: int

    def lines(self, buffer: Buffer) -> int:
        """The cache lines of a row, about: it may begin anywhere in one."""
        return -(-self.run * dt.itemsize(buffer.dtype) // LINE)


def part_of(loop: For, block: str, buffer: Buffer, analyzer: Analyzer) -> Part | None:
    """The part of `buffer` that `block` touches in one iteration of `loop`; None where its size is
    not known."""
    node = next((b for b in blocks(loop) if b.name == block), None)
    inner = {s.var: s.extent for s in walk(loop.body) if isinstance(s, For)}
    region: list[Interval] = []
    for indices in _accesses(node, buffer) if node is not None else ():
        found = [_reach(n, size, inner, analyzer) for n, size in zip(indices, buffer.shape)]
        mine = [f for f in found if f is not None]
        if len(mine) < len(found):
            return None
        joined = [union(a, b, analyzer) for a, b in zip(region or mine, mine)]
        region = [j for j in joined if j is not None]
        if len(region) < len(joined):
            return None
    sizes = [_clipped(part, size) for part, size in zip(region, buffer.shape)]
    known = [size for size in sizes if size is not None]
    if not region or len(known) < len(sizes):
        return None
    whole = [size == int_value(full) for size, full in zip(known, buffer.shape)]
    at = next((n for n in reversed(range(1, len(known))) if not whole[n]), 0)
    return Part([part.low for part in region], tuple(known[:at]), prod(known[at:]))


def _reach(
    index: Expr, size: Expr, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> Interval | None:
    """The places of an index while the loops inside run: all where memory says which."""
    found = relax(index, inner, analyzer)
    told = next(loads(index), None) is not None
    known = found is not None and next(loads(found.low), None) is None
    return Interval(Const(0, dt.INDEX), size) if told and not known else found


def requests(part: Part, buffer: Buffer, over: tuple[For, ...]) -> int | None:
    """How many cache lines each iteration of the loops asks for; None where that is not known, or
    too many to be of use."""
    lines = prod(part.rows) * part.lines(buffer)
    extents = [f.const_extent for f in over]
    steps = prod(e for e in extents if e is not None)
    if None in extents or not steps or -(-lines // steps) > MOST_AT_ONCE:
        return None
    return -(-lines // steps)


def _clipped(part: Interval, size: Expr) -> int | None:
    """The extent of a part, at most that of the dimension: a tail may be counted in full."""
    extent, whole = int_value(part.extent), int_value(size)
    return extent if extent is None or whole is None else min(extent, whole)


def _accesses(block: Block, buffer: Buffer) -> list[tuple[Expr, ...]]:
    """The indices of the loads and stores of `buffer`, in terms of the loops around the block."""
    bound = {it.var: it.binding for it in block.iters}
    found: dict[tuple[Expr, ...], None] = {}
    for stmt in walk(block.body):
        if isinstance(stmt, Store) and stmt.buffer is buffer:
            found[stmt.indices] = None
        for e in stmt_exprs(stmt):
            found.update((n.indices, None) for n in loads(e) if n.buffer is buffer)
    return [tuple([substitute(index, bound) for index in indices]) for indices in found]


def _ask(
    buffer: Buffer, part: Part, over: tuple[For, ...], count: int, fresh: Callable[[str], str]
) -> Stmt:
    """The requests of an iteration of the loops `over`: of several rows those at hand as far as the
    iterations are, else the next ones."""
    step: Expr = Const(0, dt.INDEX)
    for loop in over:
        step = step * loop.extent + loop.var
    one = For(Var(fresh("line")), Const(count, dt.INDEX), seq(), ForKind.UNROLLED)
    line, each, first = step * count + one.var, part.lines(buffer), list(part.first)
    if prod(part.rows) > 1:
        steps = prod(loop.const_extent or 1 for loop in over)
        row = line * (prod(part.rows) * each) // (steps * count)
        row, line = row // each, row % each
        for n in reversed(range(len(part.rows))):
            first[n] += row % part.rows[n]
            row = row // part.rows[n]
    first[-1] += line * max(1, LINE // dt.itemsize(buffer.dtype))
    return replace(one, body=Prefetch(buffer, tuple(first)))
