"""The comparisons in a piece of program, and those that all of it stands under."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.expr import FALSE, TRUE, BinOp, Const, Expr, Var, conjuncts
from tensorir.passes.facts.inequality import Range
from tensorir.passes.facts.work import is_tested_once
from tensorir.stmt import Alloc, For, If, Let, Seq, Stmt
from tensorir.visit import child_stmts, stmt_exprs, walk_exprs

Loops = dict[Var, Expr]
"""The loops around an expression, with their extents."""

Solved = dict[Expr, tuple[Range, Range]]
"""Conditions, with the ranges in which they hold surely and possibly."""


COMPARISONS = ("<", "<=")

Memo = dict[Expr, list[BinOp]]
"""The comparisons, limits and remainders in expressions that were searched before."""


def comparisons(stmt: Stmt, memo: Memo | None = None) -> dict[Expr, list[Loops]]:
    """Every `<` and `<=` of indices in `stmt`, with the loops of `stmt` around each occurrence.

    Comparisons that read memory are left out: what they read may change; and those that much work
    depends on at once.
    """
    found = deciding(stmt, {} if memo is None else memo)
    return {n: places for n, places in found.items() if n.op in COMPARISONS}


def deciding(stmt: Stmt, memo: Memo) -> dict[BinOp, list[Loops]]:
    """Likewise the limits and remainders of indices as well."""
    found: dict[BinOp, list[Loops]] = {}
    _deciding(stmt, {}, found, memo)
    return found


def _deciding(stmt: Stmt, inner: Loops, found: dict[BinOp, list[Loops]], memo: Memo) -> None:
    if not (isinstance(stmt, If) and is_tested_once(stmt)):
        for e in stmt_exprs(stmt):
            for node in in_expr(e, memo):
                found.setdefault(node, []).append(inner)
    if isinstance(stmt, For):
        inner = {**inner, stmt.var: stmt.extent}
    for child in child_stmts(stmt):
        _deciding(child, inner, found, memo)


def in_expr(e: Expr, memo: Memo) -> list[BinOp]:
    """The comparisons, limits and remainders of indices in `e`."""
    known = memo.get(e)
    if known is None:
        nodes = [n for n in walk_exprs(e) if isinstance(n, BinOp) and n.a.dtype == dt.INDEX]
        known = [n for n in nodes if n.op in (*COMPARISONS, "min", "max", "%")]
        known = memo[e] = [n for n in known if not n.has_loads]
    return known


def longest(places: list[Loops]) -> Loops | None:
    """The loops around some occurrences; of copies with other lengths the longest one. None where
    that is not known."""
    found: Loops = {}
    for var, extent in (item for place in places for item in place.items()):
        before = found.setdefault(var, extent)
        if before is not extent:
            if not isinstance(before, Const) or not isinstance(extent, Const):
                return None
            found[var] = max(before, extent, key=lambda e: e.value)
    return found


def guards(stmt: Stmt) -> dict[Expr, None]:
    """The conjuncts under which every store of `stmt` stands, without those that read memory."""
    if isinstance(stmt, If):
        below = guards(stmt.then)
        if stmt.orelse is None:
            own = [c for c in conjuncts(stmt.cond) if not c.has_loads]
            return {**dict.fromkeys(own), **below}
        other = guards(stmt.orelse)
        return {c: None for c in below if c in other}
    if isinstance(stmt, Seq) and stmt.stmts:
        first, *others = [guards(s) for s in stmt.stmts]
        return {c: None for c in first if all(c in other for other in others)}
    if isinstance(stmt, (For, Alloc, Let)):
        return guards(stmt.body)
    return {}


def reached(stmt: Stmt, solved: Solved, extent: int) -> tuple[int, int]:
    """The part of [0, extent) outside of which a loop with the body `stmt` does nothing.

    Every statement may stand under conditions of its own, which `solved` knows.
    """
    if isinstance(stmt, If):
        low, high = reached(stmt.then, solved, extent)
        if stmt.orelse is not None:
            return _hull((low, high), reached(stmt.orelse, solved, extent))
        for condition in conjuncts(stmt.cond):
            possible = solved[condition][1].const(extent) if condition in solved else None
            if possible is not None:
                low, high = max(low, possible[0]), min(high, possible[1])
        return low, max(low, high)
    if isinstance(stmt, Seq) and stmt.stmts:
        first, *others = [reached(s, solved, extent) for s in stmt.stmts]
        for other in others:
            first = _hull(first, other)
        return first
    if isinstance(stmt, (For, Alloc, Let)):
        return reached(stmt.body, solved, extent)
    return 0, extent


def _hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The smallest range with both; empty ones do not count."""
    full = [r for r in (a, b) if r[0] < r[1]]
    return (min(r[0] for r in full), max(r[1] for r in full)) if full else (0, 0)


def decided(loop: For, solved: Solved) -> dict[Expr, Expr]:
    """The conditions that hold in all iterations of `loop`, or in none."""
    known: dict[Expr, Expr] = {}
    extent = loop.const_extent
    for condition, (sure, possible) in solved.items():
        if sure.term is not loop.var or extent is None:
            continue
        if sure.const(extent) == (0, extent):
            known[condition] = TRUE
            continue
        some = possible.const(extent)
        if some is not None and some[0] == some[1]:
            known[condition] = FALSE
    return known


def largest(mine: dict[Expr, Range], extent: int) -> tuple[int, int, list[Expr]] | None:
    """The part of [0, extent) to free of conditions, and those that hold in all of it.

    Conditions that hold less than half of the time (a third, in short loops) are not worth it.
    """
    ranges = {c: r for c, r in ((c, sure.const(extent)) for c, sure in mine.items()) if r}
    low, high = 0, extent
    for first, last in sorted(ranges.values(), key=lambda r: r[0] - r[1]):
        inside = min(high, last) - max(low, first)
        if inside > 0 and inside * (3 if extent < 5 else 2) >= extent:
            low, high = max(low, first), min(high, last)
    if (low, high) == (0, extent):
        return None
    return low, high, [c for c, r in ranges.items() if r[0] <= low and high <= r[1]]
