"""partition_loops: conditions move out of loops, by cutting the loops where they change.

Primitives never need extents to divide: surplus instances get a predicate, and here the main part
of a loop loses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from tensorir.arith import Analyzer
from tensorir.expr import FALSE, TRUE, Const, Expr, Var, convert, maximum, minimum
from tensorir.func import PrimFunc
from tensorir.passes.facts.choices import Choices, choices
from tensorir.passes.facts.conditions import (
    Loops,
    Memo,
    Solved,
    decided,
    deciding,
    guards,
    in_expr,
    largest,
    reached,
)
from tensorir.passes.facts.inequality import Limit, solve, split_at
from tensorir.passes.facts.ranges import Scope
from tensorir.passes.facts.work import in_registers
from tensorir.passes.rewriting import NOTHING, is_nothing, replace_exprs, with_body
from tensorir.passes.unroll import code_size, expand, is_short
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt, replace, seq
from tensorir.visit import map_children, variables, walk

COPIES = 9
"""Copies that may be made of the body of one nest, altogether: both ends and what lies between them
of rows and of lanes."""

FEW, LANES = 4, 5
"""Copies that may be made of any body; of lanes, for two ends of a row that several tasks share."""

STATEMENTS = 600
"""Straight-line statements that the copies of one nest should have, altogether."""

LONG = 48
"""Operations of an extent from which on a loop stays whole: pieces of pieces of symbolic extents
have each the extents of all those before in their own."""

MOST = "most"
"""Annotation of a vectorized loop that was cut to a symbolic extent: the extent it had."""

Limits = dict[Expr, tuple[Limit, Limit]]
"""Terms of a loop variable, with the range [low, high) in which they stay."""


def copies_of_body(statements: int) -> int:
    """How many copies of a nest's body may be made altogether, for the conditions that it meets at
    the ends of its loops; the body has so many straight-line `statements`."""
    return max(FEW, min(COPIES, STATEMENTS // max(1, statements)))


def partition_loops(func: PrimFunc) -> PrimFunc:
    """Cut loops so that tail and padding conditions are gone where most of the time is spent, and
    so are limits and remainders of indices that change with lanes or in innermost loops.

    rewrite:
        for i_0 in range(171):                 for i_0 in range(170):
            for i_1 in unrolled(6):                for i_1 in unrolled(6):
                if i_0 * 6 + i_1 < 1024:   ->          S(i_0 * 6 + i_1)
                    S(i_0 * 6 + i_1)           for i_1 in unrolled(4):
                                                   S(1020 + i_1)

    A loop whose body wholly stands under a condition is shortened. A serial loop is cut in up to
    three consecutive ones; a parallel loop keeps its iterations, and chooses between two bodies;
    an unrolled loop is expanded. Copies are made for the conditions of lanes first, each of which
    would look for itself, then for those that are the same for all lanes.
    Requires that lower_blocks ran, and that loop names are unique.
    """
    if not deciding(func.body, {}):
        return func
    scope = Scope(func)
    loops = [s for s in walk(func.body) if isinstance(s, For)]
    lanes = frozenset(s.var for s in loops if s.kind is ForKind.VECTORIZED)
    inner = {s.var for s in loops if not any(isinstance(child, For) for child in walk(s.body))}
    sizes = frozenset(func.size_vars)
    partition = _Partition(scope, scope.top, sizes, lanes, lanes | inner)
    return with_body(func, partition.visit(func.body, {}, None))


@dataclass(frozen=True)
class Piece:
    """Some iterations of a loop, and how many copies may be made of them at least."""

    stmt: Stmt
    share: int


NONE = Choices({}, {})


@dataclass
class _Partition:
    """`analyzer` knows the loops around the current one; or, where all are constant, every loop of
    the function, of which copies are never longer. `choices` are of the body solved last."""

    place: Scope
    analyzer: Analyzer
    sizes: frozenset[Var]
    lanes: frozenset[Var]
    often: frozenset[Var]
    only_lanes: bool = False
    memo: Memo = field(default_factory=dict)
    choices: Choices = NONE

    def visit(self, stmt: Stmt, outer: Loops, copies: int | None) -> Stmt:
        """`stmt` inside the loops `outer`; `copies` may be made of it, None if none were yet."""
        if isinstance(stmt, For):
            return self.nest(stmt, outer) if copies is None else self.loop(stmt, outer, copies)
        result = map_children(stmt, lambda s: self.visit(s, outer, copies))
        return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result

    def nest(self, loop: For, outer: Loops) -> Stmt:
        """All copies of one: those for lanes first, then of each of these as many as are left."""
        copies = copies_of_body(code_size(loop))
        self.only_lanes = True
        made = self.loop(loop, outer, max(LANES, copies))
        self.only_lanes = False
        return self.visit(made, outer, max(1, copies // max(1, _copies(made, loop))))

    def loop(self, loop: For, outer: Loops, copies: int) -> Stmt:
        trimmed = self.trim(loop, outer)
        if not isinstance(trimmed, For) or trimmed.var is not loop.var:
            return self.visit(trimmed, outer, copies)
        loop = trimmed
        every = self.solved(loop, loop.body, outer)
        solved = {c: ranges for c, ranges in every.items() if self.is_turn_of(c)}
        known = decided(loop, solved)
        if known:
            loop = replace(loop, body=self.choices.replaced(loop.body, known))
            solved = {c: ranges for c, ranges in solved.items() if c not in known}
        shorter = self.shortened(loop, solved)
        if shorter is not None:
            return self.again(shorter, loop, outer, copies)
        if solved and loop.kind is ForKind.UNROLLED and is_short(loop):
            expanded = expand(loop)  # each copy can decide for itself
            if expanded is not loop:
                return self.visit(expanded, outer, copies)
        if solved and loop.kind in (ForKind.SERIAL, ForKind.VECTORIZED):
            pieces = self.cut(loop, solved, copies)
            if pieces is not None:
                return self.consecutive(pieces, loop, outer, copies)
        body = self.choose(loop, loop.body, outer, copies)
        return loop if body is loop.body else replace(loop, body=body)

    def consecutive(self, pieces: list[Piece], loop: For, outer: Loops, copies: int) -> Stmt:
        """All of the pieces; the main one first takes what copies it needs."""
        done: dict[int, Stmt] = {}
        left = copies
        for n, piece in sorted(enumerate(pieces), key=lambda item: -item[1].share):
            others = len(pieces) - len(done) - 1
            share = piece.share if not done else max(piece.share, left - others)
            done[n] = self.again(piece.stmt, loop, outer, share)
            left -= _copies(done[n], loop.body)
        return seq(*[done[n] for n in range(len(pieces))])

    def again(self, piece: Stmt, loop: For, outer: Loops, copies: int) -> Stmt:
        if isinstance(piece, For) and piece.var is loop.var:
            return self.loop(piece, outer, copies)
        return self.visit(piece, outer, copies)

    def solved(self, loop: For, body: Stmt, outer: Loops) -> Solved:
        """The conditions of `body` in which `loop` has a say."""
        result: Solved = {}
        scope, here = {*outer, *self.sizes}, {**outer, loop.var: loop.extent}
        self.choices = choices(
            body, self.memo, self.often, lambda inner: self.place.within({**here, **inner})
        )
        for condition, inner in self.choices.places.items():
            used = variables(condition)
            if loop.var not in used:
                continue
            around = {loop.var: loop.extent, **inner}
            mentioned = {v: extent for v, extent in around.items() if v in used}
            analyzer = self.place.inside(self.analyzer, mentioned)
            bounds = partial(_bounds, inner=inner, analyzer=analyzer)
            ranges = solve(condition, loop.var, inner, bounds)
            if ranges is not None and all(limits.free <= scope for limits in ranges):
                result[condition] = ranges
        return result

    def is_turn_of(self, condition: Expr) -> bool:
        """Whether copies are made for a condition now."""
        return not self.only_lanes or not self.lanes.isdisjoint(variables(condition))

    def trim(self, loop: For, outer: Loops) -> Stmt:
        """`loop` shortened to the iterations in which the conditions around its body can hold."""
        all_of = [c for c in guards(loop.body) if loop.var in variables(c)]
        conditions = [c for c in all_of if self.is_turn_of(c)]
        if not conditions or loop.kind is ForKind.THREAD:
            return loop
        solved = self.solved(loop, loop.body, outer)
        low: Expr = Const(0, loop.var.dtype)
        high = loop.extent
        known: dict[Expr, Expr] = {}
        for condition in conditions:
            if condition not in solved or solved[condition][1].term is not loop.var:
                continue
            sure, possible = solved[condition]
            ends = loop.kind is ForKind.SERIAL and not possible.free <= self.sizes
            exact = sure.same(possible) and loop.kind is not ForKind.UNROLLED
            if possible.free and not (ends or exact):
                continue
            if sure.same(possible):
                known[condition] = TRUE
            low = low if possible.low is None else maximum(low, possible.low)
            high = high if possible.high is None else minimum(high, possible.high)
        if not known and isinstance(low, Const) and not low.value and high is loop.extent:
            return loop
        low, high = self.analyzer.simplify(low), self.analyzer.simplify(high)
        extent = self.analyzer.simplify(high - low)
        return self.segment(replace(loop, body=replace_exprs(loop.body, known)), low, extent)

    def shortened(self, loop: For, solved: Solved) -> Stmt | None:
        """`loop` without the iterations at its ends that do nothing; None where there are none."""
        extent = loop.const_extent
        if not solved or extent is None or loop.kind in (ForKind.VECTORIZED, ForKind.THREAD):
            return None
        mine = {c: ranges for c, ranges in solved.items() if ranges[1].term is loop.var}
        low, high = reached(loop.body, mine, extent)
        if (low, high) == (0, extent):
            return None
        return self.segment(loop, Const(low, loop.var.dtype), Const(high - low, loop.var.dtype))

    def segment(self, loop: For, start: Expr, extent: Expr) -> Stmt:
        """The iterations [start, start + extent) of `loop`."""
        if isinstance(extent, Const):
            if extent.value <= 0:
                return NOTHING
            if extent.value == 1:
                return replace_exprs(loop.body, {loop.var: start})
        elif not self.analyzer.prove(convert(0) <= extent):
            extent = maximum(extent, 0)
        body = replace_exprs(loop.body, {loop.var: loop.var + start})
        piece = replace(loop, extent=extent, body=body)
        most = loop.const_extent
        if loop.kind is not ForKind.VECTORIZED or isinstance(extent, Const) or most is None:
            return piece
        return replace(piece, annotations={**loop.annotations, MOST: most})

    def cut(self, loop: For, solved: Solved, copies: int) -> list[Piece] | None:
        """`loop` in consecutive pieces.

        Conditions are gone in the piece that is run most.
        """
        mine = {c: sure for c, (sure, _) in solved.items() if sure.term is loop.var}
        if loop.kind is ForKind.VECTORIZED:  # a choice of values is left to the lanes
            ifs = [s.cond for s in walk(loop.body) if isinstance(s, If)]
            tested = {c for cond in ifs for c in in_expr(cond, self.memo)}
            mine = {c: sure for c, sure in mine.items() if c in tested}
        extent = loop.const_extent
        known: list[dict[Expr, Expr]] = [{}, {}, {}]  # of the pieces: before, most, after
        if extent is not None and any(not sure.free for sure in mine.values()):
            found = largest(mine, extent)
            if found is None:
                return None
            first, last, true = found
            marks: list[Expr] = [Const(n, loop.var.dtype) for n in (0, first, last, extent)]
        else:
            limits = [s.high for s in mine.values() if s.high is not None and s.free <= self.sizes]
            serial = loop.kind is ForKind.SERIAL or MOST in loop.annotations
            if not limits or not serial:
                return None
            high = limits[0]
            true = [c for c, s in mine.items() if s.low is None and s.high is high]
            known[2] = {c: FALSE for c in true if solved[c][0].same(solved[c][1])}
            zero = Const(0, loop.var.dtype)
            middle = self.analyzer.simplify(minimum(maximum(high, 0), loop.extent))
            if middle.written > LONG:
                return None
            marks = [zero, zero, middle, loop.extent]
        parts = [n for n in range(3) if marks[n] is not marks[n + 1]]
        innermost = extent is not None and not any(isinstance(s, For) for s in walk(loop.body))
        if not 1 < len(parts) <= (max(copies, 3) if innermost else copies):
            return None
        least = max(1, copies // 4) if extent is not None else 1
        pieces = []
        known[1] = dict.fromkeys(true, TRUE)
        for n in parts:
            body = self.choices.replaced(loop.body, known[n]) if known[n] else loop.body
            length = self.analyzer.simplify(marks[n + 1] - marks[n])
            piece = self.segment(replace(loop, body=body), marks[n], length)
            share = max(1, copies - least * (len(parts) - 1)) if n == 1 else least
            pieces.append(Piece(piece, share))
        return pieces

    def choose(
        self, loop: For, body: Stmt, outer: Loops, copies: int, limits: Limits | None = None
    ) -> Stmt:
        """`body` of `loop`, as two bodies under an If where that frees one of conditions.

        Only of the statements that have such conditions, where others stand beside them.
        """
        if limits is None and self.beside(loop, body, outer):
            parts = map_children(body, lambda s: self.choose(loop, s, outer, copies))
            return seq(*parts.stmts) if isinstance(parts, Seq) and parts is not body else parts
        limits = limits or {}
        within = {**outer, loop.var: loop.extent}
        threads = loop.kind is ForKind.THREAD and not (loop.thread or "").startswith("blockIdx")
        if threads or copies < 2:
            return self.inside(loop, body, within, copies)
        stays = loop.kind in (ForKind.PARALLEL, ForKind.THREAD)
        for condition, (sure, _) in self.solved(loop, body, outer).items():
            free = sure.free <= self.sizes and (stays or sure.term is not loop.var)
            by_lane = loop.kind is ForKind.VECTORIZED and loop.var in variables(sure.term)
            if by_lane or not free or not self.is_turn_of(condition):
                continue  # lanes choose values, and run nothing by themselves
            split = split_at(sure, *(limits.get(sure.term) or self.whole(sure.term, loop)))
            if split is None or isinstance(body, If) and body.cond is split[0]:
                continue
            test, here, there = split
            least = max(1, copies // 4)
            main = self.narrowed(loop, body, outer, copies - least, {**limits, sure.term: here})
            left = max(least, copies - _copies(main, body))
            tail = self.narrowed(loop, body, outer, left, {**limits, sure.term: there})
            return If(test, main, None if is_nothing(tail) else tail)
        return self.inside(loop, body, within, copies)

    def beside(self, loop: For, body: Stmt, outer: Loops) -> bool:
        """Whether some statements of a sequence have conditions of `loop`, and some have none.

        Memory around them is no reason to keep them together, unless it may be registers.
        """
        if isinstance(body, Alloc) and not in_registers(body):
            return self.beside(loop, body.body, outer)
        if not isinstance(body, Seq):
            return False
        return len({bool(self.solved(loop, child, outer)) for child in body.stmts}) > 1

    def inside(self, loop: For, body: Stmt, within: Loops, copies: int) -> Stmt:
        """`visit` of what stands in a loop."""
        outside = self.analyzer
        self.analyzer = self.place.inside(outside, {loop.var: loop.extent})
        result = self.visit(body, within, copies)
        self.analyzer = outside
        return result

    def whole(self, term: Expr, loop: For) -> tuple[Limit, Limit]:
        """All that `term` can be in `loop`."""
        mine = {loop.var: loop.extent}
        low, high = _bounds(term, mine, self.place.inside(self.analyzer, mine))
        return low, None if high is None else high + 1

    def narrowed(self, loop: For, body: Stmt, outer: Loops, copies: int, limits: Limits) -> Stmt:
        """`body` where the terms that are keys of `limits` are known to stay within them."""
        known: dict[Expr, Expr] = {}
        for condition, (sure, possible) in self.solved(loop, body, outer).items():
            given = limits.get(sure.term)
            if given is not None and sure.covers(*given):
                known[condition] = TRUE
            elif given is not None and possible.misses(*given):
                known[condition] = FALSE
        for term, (low, high) in limits.items():
            if isinstance(low, int) and isinstance(high, int) and low + 1 == high:
                known[term] = Const(low, term.dtype)
        return self.choose(loop, self.choices.replaced(body, known), outer, copies, limits)


def _copies(made: Stmt, body: Stmt) -> int:
    """How many copies of `body` were made, by the statements they have."""
    return -(-code_size(made) // max(1, code_size(body)))


def _bounds(e: Expr, inner: Loops, analyzer: Analyzer) -> tuple[int | None, int | None]:
    extent = inner.get(e) if isinstance(e, Var) else None
    if isinstance(extent, Const):
        return 0, max(0, int(extent.value) - 1)
    return analyzer.bounds(e)
