"""simplify: the final cleaning of expressions, loops and memory that nothing needs.

Indices never overflow, so `a - b < 4` may become `a < b + 4`. An int64 that a program reads may be
any number, and where b is near the largest one, b + 4 is a negative one. A sum that overflows on
its way is right in the end, modulo 2**64, where the end is in range. So what counts is a sum that
is compared, divided or converted: it was there before, or has bounds that fit (`simplify_data`).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import NOTHING, is_nothing, replace_exprs, with_body
from tensorir.stmt import Alloc, Extern, For, ForKind, If, Let, Prefetch, Seq, Stmt, Store, seq
from tensorir.visit import (
    certain_exprs,
    loads,
    map_children,
    map_own_exprs,
    rebuild,
    stmt_exprs,
    variables,
    walk,
    walk_exprs,
)

RING = ("+", "-", "*")
"""Operators that give the right number modulo 2**64 whatever overflowed before."""


def simplify(func: PrimFunc) -> PrimFunc:
    """Simplify all expressions; drop what cannot run, loops of one iteration and dead memory."""
    exprs = (e for s in walk(func.body) for e in stmt_exprs(s))
    read = {load.buffer for e in exprs for load in loads(e)}
    # An output of an extern function that nobody reads is written all the same.
    read |= {p.buffer for s in walk(func.body) if isinstance(s, Extern) for p in s.parts}
    return with_body(func, _clean(func.body, function_analyzer(func), read))


def _clean(stmt: Stmt, analyzer: Analyzer, read: set[Buffer]) -> Stmt:
    stmt = map_own_exprs(stmt, lambda e: simplify_data(analyzer, e))
    if isinstance(stmt, If) and isinstance(stmt.cond, Const):
        return _clean(stmt.then if stmt.cond.value else stmt.orelse or NOTHING, analyzer, read)
    if isinstance(stmt, For) and isinstance(stmt.extent, Const):
        if stmt.extent.value <= 0:
            return NOTHING
        if stmt.extent.value == 1 and stmt.kind is not ForKind.THREAD:
            body = replace_exprs(stmt.body, {stmt.var: Const(0, stmt.var.dtype)})
            return _clean(body, analyzer, read)
    result = map_children(stmt, lambda child: _clean(child, analyzer, read))
    if isinstance(result, Alloc) and result.buffer not in read:
        result = _without_stores(result.body, result.buffer)
    if isinstance(result, Let) and not _used(result):
        result = result.body
    if is_nothing(result):
        return NOTHING
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def _used(let: Let) -> bool:
    return any(let.var in variables(e) for s in walk(let.body) for e in stmt_exprs(s))


def _without_stores(stmt: Stmt, buffer: Buffer) -> Stmt:
    if isinstance(stmt, (Store, Prefetch)) and stmt.buffer is buffer:
        return NOTHING
    result = map_children(stmt, lambda child: _without_stores(child, buffer))
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def simplify_data(analyzer: Analyzer, e: Expr) -> Expr:
    """`e` simplified, as far as no data in int64 overflow that did not; indices never do."""
    simple = analyzer.simplify(e)
    if simple is e or not any(map(_is_data, walk_exprs(e))):
        return simple
    # What a condition may leave out has no value where the condition does not hold.
    before = {analyzer.simplify(part) for part in certain_exprs(e) if part.dtype == dt.INDEX}
    if all(part in before or _fits(analyzer, part) for part in _judged(simple)):
        return simple
    parts = e.operands
    after = tuple([simplify_data(analyzer, part) for part in parts])
    return e if all(map(is_, parts, after)) else rebuild(e, after)


def _judged(e: Expr) -> Iterator[Expr]:
    """Sums and products with data whose value decides something, other than a place in memory."""
    for node in walk_exprs(e):
        if isinstance(node, Load) or _is_ring(node):
            continue
        for part in node.operands:
            if _is_ring(part) and any(map(_is_data, walk_exprs(part))):
                yield part


def _is_ring(e: Expr) -> bool:
    return isinstance(e, BinOp) and e.op in RING and e.dtype == dt.INDEX


def _is_data(e: Expr) -> bool:
    """Whether `e` is an int64 that is no index: it was read, converted or returned."""
    return isinstance(e, (Load, Cast, Call)) and e.dtype == dt.INDEX


def _fits(analyzer: Analyzer, e: Expr) -> bool:
    low, high = analyzer.bounds(e)
    least, most = dt.int_limits(dt.INDEX)
    return low is not None and high is not None and least <= low and high <= most
