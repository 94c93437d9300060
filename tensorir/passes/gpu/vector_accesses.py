"""vector_accesses: neighbours in memory are read and written together, where they are aligned.

Accesses have up to 128 bits, as far as all neighbours are aligned; else the loop is unrolled. Loops
that are to be unrolled stay loops, for the compiler to write out.
"""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Select, Var, all_of, conjuncts, int_value
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.widen import Lanes, NotVectorizable
from tensorir.stmt import Alloc, Extern, For, ForKind, If, Let, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp
from tensorir.visit import (
    loads,
    map_children,
    map_own_exprs,
    stmt_exprs,
    substitute,
    substitute_stmt,
    transform,
    walk,
)

BITS = 128
"""Of the widest access of a thread. Arguments are aligned to it, which a call checks; so are
temporaries and what is in shared memory."""


def vector_accesses(func: PrimFunc) -> PrimFunc:
    """Make vectorized loops accesses of up to 128 bits, or unrolled loops.

    rewrite:
        for j in vectorized(8):                for j in unrolled(2):
            S[t * 8 + j] = A[t * 8 + j]  ->        S[ramp(t * 8 + j * 4, 1, 4)] =
                                                       A[ramp(t * 8 + j * 4, 1, 4)]

    There are as many lanes, a power of two that divides the extent, as all neighbours in global and
    shared memory are aligned for. A condition that a vector meets in all lanes or in none, as at
    edges that are multiples of it, is asked once. What would bring the lanes nothing but
    arithmetic, which threads do one by one, becomes an unrolled loop. Requires that flatten_buffers
    ran.
    """
    if not any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in walk(func.body)):
        return func
    return with_body(func, _visit(func.body, function_analyzer(func)))


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    stmt = map_children(stmt, lambda child: _visit(child, analyzer))
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        return _vectors(stmt, analyzer) or replace(stmt, kind=ForKind.UNROLLED)
    return stmt


def _vectors(loop: For, analyzer: Analyzer) -> Stmt | None:
    extent = loop.const_extent
    if extent is None or any(isinstance(s, (For, Alloc, Extern)) for s in walk(loop.body)):
        return None
    widths = [dt.bits(b.dtype) for b in _buffers(loop.body)]
    lanes = BITS // min(widths, default=BITS)
    while lanes > 1:
        if extent % lanes == 0:
            count = Const(extent // lanes, dt.INDEX)
            number = Var(f"{loop.var.name}.vector")  # a name that no program has
            lane = Lanes(loop.var, number * lanes, lanes, analyzer)
            try:
                body = _vector(_asked_once(loop, number, lanes, analyzer), lane)
            except NotVectorizable:
                return None
            found = _accesses(body)
            if not found:
                return None
            if all(is_aligned(buffer, ramp, analyzer) for buffer, ramp in found):
                body = substitute_stmt(body, {number: loop.var})
                return replace(loop, extent=count, kind=ForKind.UNROLLED, body=body)
        lanes //= 2
    return None


def _asked_once(loop: For, number: Var, lanes: int, analyzer: Analyzer) -> Stmt:
    """The body with conditions that hold in all lanes of vector `number` or in none in that form.

    Lanes are iterations number * lanes + lane of the loop.
    """
    lane, within = Var(f"{loop.var.name}.lane"), analyzer.copy()
    within.bind(number, (loop.const_extent or 0) // lanes)
    within.bind(lane, lanes)

    def once(c: Expr) -> Expr:
        if c.has_loads or loop.var not in c.variables:
            return c
        found = within.simplify(substitute(c, {loop.var: number * lanes + lane}))
        return c if lane in found.variables else found

    def asked(e: Expr) -> Expr | None:
        if not isinstance(e, Select):
            return None
        return Select(all_of(*map(once, conjuncts(e.cond))), e.a, e.b)

    def visit(stmt: Stmt) -> Stmt:
        made = map_own_exprs(map_children(stmt, visit), lambda e: transform(e, asked))
        if isinstance(made, If):
            return replace(made, cond=all_of(*map(once, conjuncts(made.cond))))
        return made

    return visit(loop.body)


def _vector(stmt: Stmt, lanes: Lanes) -> Stmt:
    if isinstance(stmt, Seq):
        return seq(*[_vector(s, lanes) for s in stmt.stmts])
    if isinstance(stmt, Store):
        index, value = lanes.expr(stmt.indices[0]), lanes.expr(stmt.value)
        if dt.lanes(index.dtype) == 1:  # all lanes write one element: a sum of them
            raise NotVectorizable
        return Store(stmt.buffer, (index,), lanes.widened(value))
    if isinstance(stmt, If):
        orelse = None if stmt.orelse is None else _vector(stmt.orelse, lanes)
        return If(lanes.scalar(stmt.cond), _vector(stmt.then, lanes), orelse)
    if isinstance(stmt, Let):
        value = lanes.expr(stmt.value)
        inner, var = lanes.bind(stmt.var, value.dtype)
        return Let(var, value, _vector(stmt.body, inner))
    raise NotVectorizable


def _buffers(stmt: Stmt) -> set[Buffer]:
    """What is accessed in memory that threads share."""
    found = {e.buffer for s in walk(stmt) for x in stmt_exprs(s) for e in loads(x)}
    found |= {buffer for s in walk(stmt) for buffer, _, _ in touched(s)}
    return {b for b in found if b.scope != "local"}


def _accesses(stmt: Stmt) -> list[tuple[Buffer, Ramp]]:
    """The vectors of neighbours in memory that threads share."""
    places: list[tuple[Buffer, Expr]] = []
    for s in walk(stmt):
        places += [(buffer, indices[0]) for buffer, indices, _ in touched(s)]
        for e in stmt_exprs(s):
            places += [(load.buffer, load.indices[0]) for load in loads(e)]
    return [
        (buffer, index)
        for buffer, index in places
        if isinstance(index, Ramp) and int_value(index.stride) == 1 and buffer.scope != "local"
    ]


def is_aligned(buffer: Buffer, ramp: Ramp, analyzer: Analyzer) -> bool:
    """Whether a vector of neighbours is no wider than an access, and begins at a multiple of it."""
    bits = dt.bits(buffer.dtype) * ramp.lanes
    return bits <= BITS and analyzer.divides(ramp.base, ramp.lanes)
