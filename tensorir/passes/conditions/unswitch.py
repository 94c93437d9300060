"""unswitch: conditions on rows that are left are decided once for a tile, ahead of its loops.

A tile at the edge of a symbolic size has a condition for each of its rows, also in the loop over
the sum. As rows end one after the other, what there is to decide is how many are left: the tile is
written out for each number of rows, without conditions. Where that is too long beside the tile that
has all rows, which of the two it is gets decided ahead of both.

Source: loop unswitching, in Allen and Cocke, "A catalogue of optimizing transformations", 1971.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tensorir import dtype
from tensorir.arith import Analyzer
from tensorir.arith.logic import negated
from tensorir.expr import BinOp, Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ahead import may_stand_ahead
from tensorir.passes.facts.work import ENOUGH, work
from tensorir.passes.rewriting import NOTHING, is_nothing, with_body
from tensorir.passes.unroll import code_size
from tensorir.stmt import For, ForKind, If, Let, Seq, Stmt, replace, seq
from tensorir.visit import map_children, walk

LIMIT = 384
"""The most stores that the copies of one statement may have together."""

SHARED = (ForKind.PARALLEL, ForKind.THREAD)
"""Loops that threads go through together: there is one of each."""


def unswitch(func: PrimFunc) -> PrimFunc:
    """Copy what is in a loop for each number of conditions `a + n < b` that hold there.

    This happens where they are the same for all that a loop does, and some are in a serial loop
    further in; where the copies would be too long, loops further in are tried.
    """
    return with_body(func, _decided(func.body))


def _decided(stmt: Stmt) -> Stmt:
    return _split(stmt) or _visit(stmt)


def _visit(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        if not _has_conditions(stmt):
            return stmt
        body = _split(stmt.body)
        if body is not None:
            return replace(stmt, body=body)
    return map_children(stmt, _visit)


def _split(body: Stmt) -> Stmt | None:
    """The copies of a body under the conditions that tell them apart; None if it has none."""
    if not _has_conditions(body):
        return None
    if any(isinstance(s, For) and s.kind in SHARED for s in walk(body)):
        return None
    inside = {s.var for s in walk(body) if isinstance(s, (For, Let))}
    return _copies(body, inside, _conditions) or _copies(body, inside, _choices)


def _copies(
    body: Stmt, inside: Collection[Var], of: Callable[[Stmt, Collection[Var]], Iterator[Expr]]
) -> Stmt | None:
    """The same for those conditions `of` a body, if some are in a serial loop."""
    if not any(True for s in walk(body) if _is_serial(s) for _ in of(s, inside)):
        return None
    ordered = _strictest_last(dict.fromkeys(of(body, inside)))
    if not ordered or len(ordered) > LIMIT:
        return None
    every = frozenset(ordered)
    copies = [_where(body, every, frozenset(ordered[:n])) for n in range(len(ordered) + 1)]
    if sum(map(code_size, copies)) > LIMIT:
        return None
    result, *others = map(_decided, copies)
    for cond, copy in zip(ordered, others):
        result = If(cond, copy, None if is_nothing(result) else result)
    return result


def _has_conditions(stmt: Stmt) -> bool:
    return any(isinstance(s, If) for s in walk(stmt))


def _is_serial(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.SERIAL


def _conditions(stmt: Stmt, inside: Collection[Var]) -> Iterator[Expr]:
    """The conditions in a statement that may be asked ahead of it, and that little work depends
    on: much of it is no slower for a test."""
    for part in walk(stmt):
        if isinstance(part, If) and part.orelse is None and work(part.then) < ENOUGH:
            if may_stand_ahead(part.cond, inside):
                yield part.cond


def _choices(stmt: Stmt, inside: Collection[Var]) -> Iterator[Expr]:
    """The conditions that may be asked ahead of a statement, as their opposites are too: no copy
    has what stands under the other one."""
    tests = [part.cond for part in walk(stmt) if isinstance(part, If) and part.orelse is None]
    asked = frozenset(tests)
    for cond in tests:
        if isinstance(cond, BinOp) and cond.op == "<" and negated(cond) in asked:
            if may_stand_ahead(cond, inside):
                yield cond


def _strictest_last(conditions: Collection[Expr]) -> list[Expr]:
    """Conditions `a + n < b` of indices, which do not wrap, by n; none where one of them is of
    another kind."""
    found: list[tuple[int, Expr]] = []
    first = next(iter(conditions))
    for cond in conditions:
        if not isinstance(cond, BinOp) or not isinstance(first, BinOp) or cond.op != "<":
            return []
        if cond.a.dtype != dtype.INDEX or first.a.dtype != dtype.INDEX:
            return []
        apart = int_value(Analyzer().simplify((cond.a - cond.b) - (first.a - first.b)))
        if apart is None:
            return []
        found.append((apart, cond))
    return [cond for _, cond in sorted(found, key=lambda each: each[0])]


def _where(stmt: Stmt, conditions: frozenset[Expr], known: frozenset[Expr]) -> Stmt:
    """`stmt` where the `known` conditions hold, and no other of `conditions`."""
    if isinstance(stmt, If) and stmt.orelse is None:
        opposite = negated(stmt.cond)
        if stmt.cond in conditions or opposite in conditions:
            holds = stmt.cond in known or opposite in conditions - known
            return _where(stmt.then, conditions, known) if holds else NOTHING
    result = map_children(stmt, lambda child: _where(child, conditions, known))
    if isinstance(result, Seq):
        return seq(*(s for s in result.stmts if not is_nothing(s)))
    return NOTHING if is_nothing(result) else result
