"""vectorize: vectorized loops become statements on vectors of as many lanes as fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import FALSE, TRUE, Const, Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.choices import Choices, choices
from tensorir.passes.facts.conditions import Memo
from tensorir.passes.facts.inequality import solve
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.partition_loops import MOST
from tensorir.passes.rewriting import replace_exprs, with_body
from tensorir.passes.vectors.lane_widths import widest
from tensorir.passes.vectors.masked_tails import LOOSE, WHOLE, Maskable, first_lanes, mixed_widths
from tensorir.passes.vectors.pad_rows import ROWS, Rows, used_rows
from tensorir.passes.vectors.widen import Lanes, NotVectorizable
from tensorir.stmt import Alloc, For, ForKind, If, Let, Seq, Stmt, Store, replace, seq
from tensorir.visit import loads, map_children, stmt_exprs, variables, walk

MOST_CHUNKS = 16
"""A loop of more chunks than this stays a loop."""

MOST_MASKED = 4
"""A loop of symbolic extent that may need more masked vectors than this runs one by one."""


def vectorize(
    func: PrimFunc, vector_bits: int = 128, masked_bits: Collection[int] = ()
) -> PrimFunc:
    """Cut vectorized loops of constant extent into chunks of `vector_bits`, and their remainder.

    rewrite:  (128 bits, float32)
        for j in vectorized(22):               for j in unrolled(5):
            C[j] = A[j] * 2.0                      C[ramp(j * 4, 1, 4)] =
                                         ->            A[ramp(j * 4, 1, 4)] * broadcast(2.0, 4)
                                               C[ramp(20, 1, 2)] = ...

    Lanes are counted with the widest type in memory. Where only some lanes may load (padding),
    the others load an element that exists, and the vector is gathered. What cannot be a vector,
    such as a sum over the loop itself, runs lane by lane. A remainder that would take several
    narrower vectors is one masked vector where all elements have `masked_bits` bits (masked_tails),
    and so are loops of a symbolic extent of which the most is known. Requires that flatten_buffers
    ran.
    """
    loops = [s for s in walk(func.body) if isinstance(s, For) and s.kind is ForKind.VECTORIZED]
    if not loops:
        return func
    halved: set[str] = set()
    filled: set[str] = set()
    while True:
        run = _Vectorize(func, vector_bits, masked_bits, halved, filled)
        result = with_body(func, run.stmt(func.body))
        mixed = run.whole & mixed_widths(result.body)
        waiting = _read_wider(result.body, run.narrowed) - run.begun - filled
        if not mixed | waiting:
            break
        halved |= mixed  # a buffer of which only some accesses could be masked
        filled |= waiting
    if not run.whole:
        return result
    attrs = {**func.attrs, WHOLE: sorted(run.whole), LOOSE: sorted(run.whole - run.kept)}
    return replace_fields(result, attrs=attrs)


class _Vectorize:
    def __init__(
        self,
        func: PrimFunc,
        vector_bits: int,
        masked_bits: Collection[int],
        halved: Collection[str],
        filled: Collection[str],
    ) -> None:
        self.analyzer = function_analyzer(func)
        self.vector_bits = vector_bits
        self.masked_bits = masked_bits
        self.params = frozenset(func.params)
        self.halved, self.filled = halved, filled
        self.private: frozenset[Buffer] = frozenset()
        self.rows: Rows = func.attrs.get(ROWS, {})
        self.whole: set[str] = set()
        self.kept: set[str] = set()
        self.narrowed: dict[str, int] = {}
        """The lanes of the narrowest vectors in which last terms are added to a buffer."""
        self.begun: set[str] = set()
        """The buffers of which as narrow vectors are stored that nothing is added to."""
        self.memo: Memo = {}
        self.written: frozenset[Var] = frozenset()
        """The variables of loops around that are written out."""

    def stmt(self, stmt: Stmt) -> Stmt:
        known, outside, rows, written = self.analyzer, self.private, self.rows, self.written
        if isinstance(stmt, If):
            self.analyzer = known.assuming(stmt.cond)
            then = self.stmt(stmt.then)
            self.analyzer = known
            return If(stmt.cond, then, None if stmt.orelse is None else self.stmt(stmt.orelse))
        if isinstance(stmt, For):
            self.analyzer = _inside(stmt, known)
            if stmt.kind is ForKind.VECTORIZED:
                result = self.loop(stmt)
                self.analyzer = known
                return result
            if stmt.kind is ForKind.UNROLLED:
                self.written |= {stmt.var}
        if isinstance(stmt, Alloc) and stmt.buffer.name not in self.halved:
            self.private |= {stmt.buffer}
            self.rows = {**rows, **used_rows(stmt, rows, self.analyzer)}
        elif isinstance(stmt, For) and stmt.kind in (ForKind.PARALLEL, ForKind.THREAD):
            self.private = frozenset()
        result = map_children(stmt, self.stmt)
        self.analyzer, self.private, self.rows, self.written = known, outside, rows, written
        return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result

    def loop(self, loop: For) -> Stmt:
        loop = replace(loop, body=_serial(loop.body))
        extent = loop.const_extent
        if any(isinstance(s, Alloc) for s in walk(loop.body)):
            return replace(loop, kind=ForKind.SERIAL)
        if extent is None:
            return self.symbolic(loop) or replace(loop, kind=ForKind.SERIAL)
        lanes = max(2, self.vector_bits // widest(loop, self.written))
        conditions = self.conditions(loop)
        pieces: list[Stmt] = []
        done = 0
        if not conditions.places and extent >= 2 * lanes or extent // lanes > MOST_CHUNKS:
            chunks = extent // lanes
            done = chunks * lanes
            body = self.piece(loop, loop.var * lanes, lanes)
            kind = ForKind.UNROLLED if chunks <= MOST_CHUNKS else ForKind.SERIAL
            pieces.append(replace(loop, extent=Const(chunks, dt.INDEX), kind=kind, body=body))
        while extent - done >= lanes:
            part = self.decided(loop, conditions, done, done + lanes)
            pieces.append(self.piece(part, Const(done, dt.INDEX), lanes))
            done += lanes
        return seq(*pieces, *self.rest(loop, done, extent, lanes, conditions))

    def rest(
        self, loop: For, done: int, extent: int, lanes: int, conditions: Choices
    ) -> list[Stmt]:
        """The iterations from `done` on, fewer than `lanes`: masked, or in ever shorter vectors."""
        count = extent - done
        stores = [s for s in walk(loop.body) if isinstance(s, Store)] if count else []
        filled = any(s.buffer.name in self.filled for s in stores)
        if self.masked_bits and (count & (count - 1) or filled):
            tail = self.masked(loop, done, loop.extent, lanes, conditions)
            if tail is not None:
                return [tail]
        for s in stores:
            if any(n.buffer is s.buffer for n in loads(s.value)):
                self.narrowed[s.buffer.name] = min(count, self.narrowed.get(s.buffer.name, count))
            else:
                self.begun.add(s.buffer.name)
        pieces: list[Stmt] = []
        while done < extent:
            while lanes > extent - done:
                lanes //= 2
            part = self.decided(loop, conditions, done, done + lanes)
            pieces.append(self.piece(part, Const(done, dt.INDEX), lanes))
            done += lanes
        return pieces

    def symbolic(self, loop: For) -> Stmt | None:
        """`loop` of a symbolic extent as masked vectors; None where they cannot be."""
        most = loop.annotations.get(MOST)
        lanes = max(2, self.vector_bits // widest(loop, self.written))
        if not self.masked_bits or most is None or most > MOST_MASKED * lanes:
            return None
        conditions = self.conditions(loop)
        pieces: list[Stmt] = []
        for done in range(0, most, lanes):
            piece = self.masked(loop, done, loop.extent, lanes, conditions)
            if piece is None:
                return None
            pieces.append(If(Const(done, dt.INDEX) < loop.extent, piece))
        return seq(*pieces)

    def masked(
        self, loop: For, done: int, extent: Expr, lanes: int, conditions: Choices
    ) -> Stmt | None:
        """The iterations from `done` to `extent` as one masked vector, if that can be.

        A narrow one where that will do, but not of what may be kept in registers of full width.
        """
        end = int_value(extent)
        part = self.decided(loop, conditions, done, done + lanes if end is None else end)
        if end is not None and 2 * (end - done) <= lanes:
            narrow = self.as_masked(part, done, extent, 1 << (end - done - 1).bit_length())
            if narrow is not None and not narrow[1].whole:
                return narrow[0]
        found = self.as_masked(part, done, extent, lanes)
        if found is None:
            return None
        self.whole |= found[1].whole
        self.kept |= found[1].kept
        return found[0]

    def as_masked(
        self, part: For, done: int, extent: Expr, lanes: int
    ) -> tuple[Stmt, Maskable] | None:
        """The iterations from `done` on as a masked vector, and what that touches; or None."""
        try:
            body = self.piece(part, Const(done, dt.INDEX), lanes)
        except NotVectorizable:
            return None
        count = extent - done
        maskable = Maskable(
            lanes, count, self.masked_bits, self.params, self.private, self.rows, self.analyzer
        )
        return (first_lanes(count, lanes, body), maskable) if maskable.stmt(body) else None

    def decided(self, loop: For, conditions: Choices, low: int, high: int) -> For:
        """`loop` with the conditions that its iterations [low, high) have in common."""
        known = {c: self.decide(c, loop.var, low, high) for c in conditions.places}
        true = {c: e for c, e in known.items() if e is not None}
        return replace(loop, body=conditions.replaced(loop.body, true)) if true else loop

    def conditions(self, loop: For) -> Choices:
        """Those of the body in which `loop` has a say."""
        found = choices(loop.body, self.memo, (loop.var,), lambda _: self.analyzer)
        places = {c: inner for c, inner in found.places.items() if loop.var in variables(c)}
        return Choices(places, found.values)

    def decide(self, condition: Expr, var: Var, low: int, high: int) -> Expr | None:
        """The truth of `condition` for `var` in [low, high), whatever the others are."""
        others = dict.fromkeys(variables(condition) - {var})
        ranges = solve(condition, var, others, self.analyzer.bounds)
        if ranges is None or ranges[0].term is not var:
            return None
        sure, possible = ranges
        if sure.covers(low, high):
            return TRUE
        return FALSE if possible.misses(low, high) else None

    def piece(self, loop: For, base: Expr, lanes: int) -> Stmt:
        """The iterations [base, base + lanes) of `loop` at once."""
        if lanes == 1:
            return replace_exprs(loop.body, {loop.var: base})
        bits = frozenset(self.masked_bits)
        return self.vector(loop.body, Lanes(loop.var, base, lanes, self.analyzer, bits))

    def vector(self, stmt: Stmt, lanes: Lanes) -> Stmt:
        if isinstance(stmt, Seq):
            return seq(*[self.vector(s, lanes) for s in stmt.stmts])
        try:
            if isinstance(stmt, Store):
                return self.store(stmt, lanes)
            if isinstance(stmt, Let):
                value = lanes.whole(stmt.value)
                inner, var = lanes.bind(stmt.var, value.dtype)
                return Let(var, value, self.vector(stmt.body, inner))
            if isinstance(stmt, For):
                extent = lanes.scalar(stmt.extent)
                return replace(stmt, extent=extent, body=self.vector(stmt.body, lanes))
            if isinstance(stmt, If):
                orelse = None if stmt.orelse is None else self.vector(stmt.orelse, lanes)
                cond = lanes.scalar(stmt.cond)
                return If(cond, self.vector(stmt.then, lanes.under(cond)), orelse)
        except NotVectorizable:
            pass
        return self.by_lane(stmt, lanes)

    def store(self, stmt: Store, lanes: Lanes) -> Stmt:
        index, value = lanes.expr(stmt.indices[0]), lanes.whole(stmt.value)
        if dt.lanes(index.dtype) > 1:
            return Store(stmt.buffer, (index,), lanes.widened(value))
        reads = {load.buffer for load in loads(stmt.value)}
        if dt.lanes(value.dtype) > 1 or stmt.buffer in reads:
            raise NotVectorizable
        return Store(stmt.buffer, (index,), value)

    def by_lane(self, stmt: Stmt, lanes: Lanes) -> Stmt:
        """`stmt` for one lane after the other."""
        lets = {v for e in _all_exprs(stmt) for v in variables(e)} & lanes.vectors.keys()
        if lets:
            raise NotVectorizable
        lane = Var(f"{lanes.var.name}_lane", lanes.var.dtype)
        body = replace_exprs(stmt, {lanes.var: lanes.base + lane})
        return For(lane, Const(lanes.count, dt.INDEX), body)


def _read_wider(stmt: Stmt, stored: Mapping[str, int]) -> set[str]:
    """Those of the buffers `stored` in vectors of so many lanes that others read in wider ones: a
    load of what several stores made waits for them."""
    reads = [
        load for s in walk(stmt) if isinstance(s, Store) and stored
        for load in loads(s.value) if load.buffer is not s.buffer
    ]  # fmt: skip
    return {
        n.buffer.name for n in reads
        if dt.lanes(n.dtype) > stored.get(n.buffer.name, dt.lanes(n.dtype))
    }  # fmt: skip


def _inside(loop: For, outer: Analyzer) -> Analyzer:
    """What is known inside of a loop, which may be a tail: a copy with fewer iterations."""
    if loop.const_extent is None or outer.binds(loop.var, loop.extent):
        return outer
    inner = outer.copy()
    inner.bind(loop.var, loop.extent)
    return inner


def _all_exprs(stmt: Stmt) -> list[Expr]:
    return [e for s in walk(stmt) for e in stmt_exprs(s)]


def _serial(stmt: Stmt) -> Stmt:
    """`stmt` with vectorized loops made serial: only the outermost is vectorized."""
    result = map_children(stmt, _serial)
    if isinstance(result, For) and result.kind is ForKind.VECTORIZED:
        return replace(result, kind=ForKind.SERIAL)
    return result
