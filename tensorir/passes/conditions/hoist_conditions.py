"""hoist_conditions: what a loop decides for much work further in is tested once, ahead of it.

Where rows of padding are copied, packed or transformed, a test for each row costs nothing, and the
program has the row once. Cutting the loops that the condition speaks of would make copies of all
that is in them, for each end of each loop: half of the text of convolutions, and half of the
seconds that compilers take for it.

Source: loop unswitching, in Allen and Cocke, "A catalogue of optimizing transformations", 1971.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import FALSE, TRUE, BinOp, Expr, Select, Var, all_of, conjuncts
from tensorir.func import PrimFunc
from tensorir.passes.facts.ahead import may_stand_ahead
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.facts.work import ENOUGH, in_registers, work
from tensorir.passes.rewriting import replace_exprs, with_body
from tensorir.stmt import Alloc, For, ForKind, If, Let, Seq, Stmt, replace
from tensorir.visit import map_children, negate, stmt_exprs, walk, walk_exprs

Group = tuple[Expr, ...]
"""Comparisons that are asked together."""


def hoist_conditions(func: PrimFunc) -> PrimFunc:
    """Test what choices between values depend on in the loop that decides it, if much follows.

    rewrite:
        for y in range(16):                             for y in range(16):
            for x in range(56):                             if 1 <= y + p and y + p < 57:
                S[y, x] = select(                               for x in range(56):
                    1 <= y + p and y + p < 57,     ->               S[y, x] = A[y + p - 1, x]
                    A[y + p - 1, x], 0.0)                   else:
                                                                for x in range(56):
                                                                    S[y, x] = 0.0

    Sums that may be kept in registers stay without tests among them: loops around those are cut.
    Requires that lower_blocks ran.
    """
    if not any(True for stmt in walk(func.body) for _ in _choices(stmt)):
        return func
    return with_body(func, _visit(func.body, function_analyzer(func)))


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    if isinstance(stmt, Alloc) and in_registers(stmt):
        return stmt
    if isinstance(stmt, For):
        if stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
            return stmt
        body = _decided(stmt.body, stmt.var, analyzer)
        return stmt if body is stmt.body else replace(stmt, body=body)
    return map_children(stmt, lambda child: _visit(child, analyzer))


def _decided(body: Stmt, var: Var, analyzer: Analyzer) -> Stmt:
    """`body` of the loop of `var`, with tests of what that decides."""
    if isinstance(body, Alloc) and not in_registers(body):
        return map_children(body, lambda child: _decided(child, var, analyzer))
    if isinstance(body, Seq) and len({_asked(child, var) for child in body.stmts}) > 1:
        return map_children(body, lambda child: _decided(child, var, analyzer))
    groups = _asked(body, var)
    if len(groups) != 1 or work(body) < ENOUGH:
        return _visit(body, analyzer)
    (group,) = groups
    if any(analyzer.prove(c) or analyzer.prove(negate(c)) for c in group):
        return _visit(body, analyzer)  # there is nothing to choose, as partition_loops will see
    here = replace_exprs(body, dict.fromkeys(group, TRUE))
    choices = [cond for s in walk(body) for cond in _choices(s)]
    never = {c: FALSE for c in choices if set(group) <= set(conjuncts(c))}
    return If(all_of(*group), _visit(here, analyzer), _visit(replace_exprs(body, never), analyzer))


def _asked(stmt: Stmt, var: Var) -> frozenset[Group]:
    """The comparisons, as they stand together in conditions of choices, that `var` is the last
    variable of."""
    inside = {s.var for s in walk(stmt) if isinstance(s, (For, Let))}
    found = set()
    for part in walk(stmt):
        for choice in _choices(part):
            mine = [c for c in conjuncts(choice) if _is_comparison(c) and var in c.variables]
            found.add(tuple(c for c in mine if may_stand_ahead(c, inside)))
    return frozenset(found - {()})


def _is_comparison(e: Expr) -> bool:
    """Whether `e` compares indices."""
    return isinstance(e, BinOp) and e.op in ("<", "<=") and e.a.dtype == dt.INDEX


def _choices(stmt: Stmt) -> Iterator[Expr]:
    """The conditions of choices between values in `stmt` itself."""
    for e in stmt_exprs(stmt):
        for part in walk_exprs(e):
            if isinstance(part, Select):
                yield part.cond
