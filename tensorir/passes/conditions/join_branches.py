"""join_branches: what both branches of a test do stands once, and the rest under tests of its own.

Where the last of several tasks has fewer rows, or ends within a tile, partition_loops gives it a
body of its own, so that no tile asks where it ends. Nearly all of that body are the same whole
tiles, fewer times: a third of the text of products, and of the seconds that compilers take for it.

Source: branch fusion, in Coutinho, Sampaio, Pereira and Meira, "Divergence analysis and
optimizations", PACT 2011.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Const, Expr, int_value, select
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.facts.work import ENOUGH, in_registers, work
from tensorir.passes.rewriting import with_body
from tensorir.passes.unroll import LOOP, code_size
from tensorir.stmt import Alloc, For, ForKind, If, Let, Prefetch, Seq, Stmt, Store, replace, seq
from tensorir.visit import (
    child_stmts,
    map_children,
    map_own_exprs,
    negate,
    rebuild,
    stmt_exprs,
    transform,
    walk,
)

ZERO = Const(0, dt.INDEX)

ONE_THREAD = (ForKind.SERIAL, ForKind.PARALLEL)
"""Loops in which a test has one answer for an iteration; lanes may have several."""


def join_branches(func: PrimFunc) -> PrimFunc:
    """Write loops once that both branches of a test have, with the extent that the test chooses.

    rewrite:
        for t in parallel(2):                   for t in parallel(2):
            if t < 1:                               for i in range(86 - 2 * t):
                for i in range(86):                     S(t * 86 + i)
                    S(i)                            if not t < 1:
            else:                          ->           R(170)
                for i in range(84):
                    S(86 + i)
                R(170)

    A test is asked again only ahead of much work. Branches that are the same but for where they
    access are joined where what the test compares tells the places.
    Requires that lower_blocks ran.
    """
    if not any(True for stmt in walk(func.body) if _is_choice(stmt)):
        return func
    return with_body(func, _visit(func.body, function_analyzer(func)))


def _is_choice(stmt: Stmt) -> bool:
    """Whether a statement has two branches, and its test may be asked again between them."""
    return isinstance(stmt, If) and stmt.orelse is not None and not stmt.cond.has_loads


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    if isinstance(stmt, For) and stmt.kind not in ONE_THREAD:
        return stmt
    made = map_children(stmt, lambda child: _visit(child, analyzer))
    if isinstance(made, Seq) and made is not stmt:
        return seq(*made.stmts)
    if not isinstance(made, If) or not _is_choice(made) or made.orelse is None:
        return made
    if any(isinstance(s, For) and s.kind is ForKind.PARALLEL for s in walk(made)):
        return made  # what threads wait for is known of the loops that they share as they stand
    joined = _Branches(made.cond, analyzer).bodies(made.then, made.orelse)
    if joined is None or code_size(joined, LOOP) + LOOP > code_size(made, LOOP):
        return made
    return joined


@dataclass
class _Branches:
    """Joins what is done where `cond` holds with what is done where it does not.

    Where the test compares `term` with a constant at an end of its range, one branch or both know
    its value.
    """

    cond: Expr
    analyzer: Analyzer
    term: Expr | None = field(init=False, default=None)
    then: Const | None = field(init=False, default=None)
    orelse: Const | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        cond = self.cond
        if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != dt.INDEX:
            return
        below = int_value(cond.b)  # term < below
        above = int_value(cond.a)  # above <= term
        if cond.op == "<" and below is not None:
            self.term, (low, high) = cond.a, self.analyzer.bounds(cond.a)
            self.then = Const(below - 1, dt.INDEX) if low == below - 1 else None
            self.orelse = Const(below, dt.INDEX) if high == below else None
        elif cond.op == "<=" and above is not None:
            self.term, (low, high) = cond.b, self.analyzer.bounds(cond.b)
            self.then = Const(above, dt.INDEX) if high == above else None
            self.orelse = Const(above - 1, dt.INDEX) if low == above - 1 else None

    def bodies(self, a: Stmt, b: Stmt) -> Stmt | None:
        """`a` where the condition holds, and `b` where it does not; None if nothing is shared."""
        left, right = _parts(a), _parts(b)
        result: list[Stmt] = []
        n = m = 0  # what of the branches comes next
        fellows = list(self.fellows(left, right))
        for at_left, at_right, joined in (*fellows, (len(left), len(right), None)):
            alone = list(self.tested(left[n:at_left], right[m:at_right]))
            if any(work(test.then) < ENOUGH for test in alone):
                return None
            result += alone if joined is None else [*alone, joined]
            n, m = at_left + 1, at_right + 1
        return seq(*result) if fellows else None

    def fellows(
        self, left: Sequence[Stmt], right: Sequence[Stmt]
    ) -> Iterator[tuple[int, int, Stmt]]:
        """The statements of two sequences that are joined, in order, with what they become."""
        start = 0
        for n, stmt in enumerate(left):
            for m in range(start, len(right)):
                joined = self.statement(stmt, right[m])
                if joined is not None:
                    yield n, m, joined
                    start = m + 1
                    break

    def tested(self, then: Sequence[Stmt], orelse: Sequence[Stmt]) -> Iterator[If]:
        """What one of the branches does alone."""
        if then:
            yield If(self.cond, seq(*then))
        if orelse:
            yield If(negate(self.cond), seq(*orelse))

    def statement(self, a: Stmt, b: Stmt) -> Stmt | None:
        if a is b:
            return a
        if not _same_head(a, b):
            return None
        if isinstance(a, For) and isinstance(b, For):
            body = self.bodies(a.body, b.body)
            if body is None or a.kind is not ForKind.SERIAL and self.asks(body):
                return None
            extent = self.extent(a, b)
            return None if extent is None else replace(a, extent=extent, body=body)
        exprs = [self.expr(x, y) for x, y in zip(stmt_exprs(a), stmt_exprs(b))]
        below = [self.bodies(x, y) for x, y in zip(child_stmts(a), child_stmts(b))]
        if any(x is None for x in (*exprs, *below)):
            return None
        if isinstance(a, Alloc) and in_registers(a) and any(self.asks(x) for x in below if x):
            return None
        own, inner = iter(exprs), iter(below)
        result = map_own_exprs(a, lambda _: cast(Expr, next(own)))
        return map_children(result, lambda _: cast(Stmt, next(inner)))

    def asks(self, stmt: Stmt) -> bool:
        """Whether the test stands in `stmt`: lanes and sums in registers are kept free of it."""
        tests = (self.cond, negate(self.cond))
        return any(isinstance(s, If) and any(s.cond is t for t in tests) for s in walk(stmt))

    def extent(self, a: For, b: For) -> Expr | None:
        """How often a loop runs that is there for both; only a long one may have two extents."""
        if a.extent is b.extent:
            return a.extent
        if a.kind is not ForKind.SERIAL or work(a.body) < ENOUGH:
            return None
        told = self.expr(a.extent, b.extent)
        if told is None and isinstance(a.extent, Const) and isinstance(b.extent, Const):
            return select(self.cond, a.extent, b.extent)
        return told

    def expr(self, a: Expr, b: Expr) -> Expr | None:
        """An expression that is `a` where the condition holds, and `b` where it does not."""
        if a is b:
            return a
        if a.dtype == b.dtype == dt.INDEX and not a.has_loads and not b.has_loads:
            return self.index(a, b)
        if type(a) is not type(b) or not a.operands or _types(a) != _types(b):
            return None
        if rebuild(a, b.operands) is not b:
            return None
        parts = [self.expr(x, y) for x, y in zip(a.operands, b.operands)]
        known = tuple([p for p in parts if p is not None])
        return rebuild(a, known) if len(known) == len(parts) else None

    def index(self, a: Expr, b: Expr) -> Expr | None:
        """The same for indices: what `term` tells, and no choices, which would be made often."""
        simplify, term = self.analyzer.simplify, self.term
        if term is None:
            return None
        if self.orelse is not None and simplify(b - _at(a, term, self.orelse)) is ZERO:
            return a
        if self.then is not None and simplify(a - _at(b, term, self.then)) is ZERO:
            return b
        apart = int_value(simplify(b - a))
        if apart is None or self.then is None or self.orelse is None:
            return None
        step = apart * (int(self.orelse.value) - int(self.then.value))
        return simplify(a + (term - self.then) * step)


def _at(e: Expr, term: Expr, value: Const) -> Expr:
    """`e` where `term` has that value."""
    return transform(e, lambda node: value if node is term else None)


def _types(e: Expr) -> list[str]:
    return [operand.dtype for operand in e.operands]


def _parts(stmt: Stmt) -> tuple[Stmt, ...]:
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def _same_head(a: Stmt, b: Stmt) -> bool:
    """Whether two statements are the same but for their expressions and what is below them."""
    if type(a) is not type(b) or len(child_stmts(a)) != len(child_stmts(b)):
        return False
    if isinstance(a, For) and isinstance(b, For):
        same = a.kind is b.kind and a.thread == b.thread and a.annotations == b.annotations
        return same and a.var is b.var and a.kind is not ForKind.PARALLEL
    if isinstance(a, Let) and isinstance(b, Let):
        return a.var is b.var
    if isinstance(a, (Alloc, Store, Prefetch)) and isinstance(b, (Alloc, Store, Prefetch)):
        return a.buffer is b.buffer
    return isinstance(a, If)
