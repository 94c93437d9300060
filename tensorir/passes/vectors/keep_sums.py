"""keep_sums: what the first lanes of a vector sum up in a loop stays in a register meanwhile.

gcc keeps what whole vectors sum up in registers, but touches memory for each masked store, and
memory behind one is not forwarded to a load: each term waits for some thirty cycles.

Source: scalar replacement, in Callahan, Carr and Kennedy, "Improving register allocation for
subscripted variables", 1990.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import accesses
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.passes.vectors.masked_tails import LOOSE, WHOLE
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp
from tensorir.visit import map_children, map_loads, map_own_exprs, walk

MOST = 16
"""Vectors that a loop keeps, at most: half of the registers."""


@dataclass(frozen=True)
class _Term:
    """A store that a loop repeats, for the lanes that a condition lets run; None for all."""

    store: Store
    cond: Expr | None


@dataclass(frozen=True)
class _Kept:
    """Where a loop stores again and again, the register instead, and the condition of both."""

    place: Load
    register: Load
    cond: Expr | None


def keep_sums(func: PrimFunc) -> PrimFunc:
    """Keep in registers what loops add to the first lanes of vectors.

    rewrite:
        for k in range(9):                  with alloc(y_sums, f32x16[1]):
            if ramp(0, 1, 16) < 12:             if ramp(0, 1, 16) < 12:
                y[ramp(0, 1, 16)] =    ->           y_sums[0] = y[ramp(0, 1, 16)]
                  y[ramp(0, 1, 16)] + x         for k in range(9):
                                                    if ramp(0, 1, 16) < 12:
                                                        y_sums[0] = y_sums[0] + x
                                                if ramp(0, 1, 16) < 12:
                                                    y[ramp(0, 1, 16)] = y_sums[0]

    Of loops that follow each other directly, with nothing but stores inside: all that they access
    of a buffer has to be such places, which do not overlap. Requires that vectorize and simplify
    ran.
    """
    if not any(isinstance(s, If) and dt.lanes(s.cond.dtype) > 1 for s in walk(func.body)):
        return func
    analyzer = function_analyzer(func)
    fresh = fresh_names(func.body, [b.name for b in (*func.params, *func.buffers)])
    whole, registers = func.attrs.get(WHOLE, ()), dict[str, None]()

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return map_children(stmt, visit)
        kept = _kept(stmt, whole, analyzer, fresh)
        if not kept:
            return map_children(stmt, visit)
        registers.update({each.register.buffer.name: None for each in kept})
        return _made(stmt, kept, analyzer)

    body = visit(func.body)
    if not registers:
        return func
    loose = sorted((*func.attrs.get(LOOSE, ()), *registers))
    return dataclasses.replace(with_body(func, body), attrs={**func.attrs, LOOSE: loose})


def _kept(
    loop: For, whole: Sequence[str], analyzer: Analyzer, fresh: Callable[[str], str]
) -> list[_Kept]:
    """What such a loop keeps; nothing where another place may overlap one of these."""
    loops = list(_chain(loop))
    terms, inside = _terms(loops[-1].body) if loops else [], {each.var for each in loops}
    if any(inside & each.extent.variables for each in loops):
        return []
    found, touched = list[_Kept](), accesses(loop)
    for buffer in dict.fromkeys(t.store.buffer for t in terms if t.cond is not None):
        own = [t for t in terms if t.store.buffer is buffer]
        places = dict.fromkeys((t.store.indices, t.cond) for t in own)
        stored = {indices for indices, _ in places}
        if buffer.name in whole or len(stored) < len(places):
            continue
        if not all(_is_place(buffer, t, inside) for t in own):
            continue
        if any(access.indices not in stored for access in touched[buffer]):
            continue
        if any(_may_meet(a[0], b[0], analyzer) for a, b in combinations(stored, 2)):
            continue
        for indices, cond in places:
            vector = dt.with_lanes(buffer.dtype, dt.lanes(indices[0].dtype))
            register = Buffer(fresh(f"{buffer.name}_sums"), (const(1),), vector, "local")
            found.append(_Kept(Load(buffer, indices), Load(register, (const(0),)), cond))
    return found if len(found) <= MOST and _agree(terms, found) else []


def _chain(loop: For) -> Iterator[For]:
    """Serial loops that follow each other directly, the outermost first."""
    while loop.kind is ForKind.SERIAL:
        yield loop
        if not isinstance(loop.body, For):
            return
        loop = loop.body


def _terms(body: Stmt) -> list[_Term]:
    """The stores of a body that does nothing else; none where it does."""
    found = list[_Term]()
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        cond, inner = None, stmt
        if isinstance(stmt, If):
            if dt.lanes(stmt.cond.dtype) == 1 or stmt.orelse is not None:
                return []
            cond, inner = stmt.cond, stmt.then
        for store in inner.stmts if isinstance(inner, Seq) else (inner,):
            if not isinstance(store, Store):
                return []
            found.append(_Term(store, cond))
    return found


def _is_place(buffer: Buffer, term: _Term, inside: set[Var]) -> bool:
    """Whether a store is of neighbours that stay the same while the loops run, as do its lanes."""
    (index, *more), cond = term.store.indices, term.cond
    if more or not isinstance(index, Ramp) or int_value(index.stride) != 1:
        return False
    fixed = (index,) if cond is None else (index, cond)
    if dt.lanes(buffer.dtype) > 1 or dt.is_bool(buffer.dtype):
        return False
    return not any(inside & e.variables or e.has_loads for e in fixed)


def _may_meet(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    assert isinstance(a, Ramp) and isinstance(b, Ramp)
    apart = int_value(analyzer.simplify(b.base - a.base))
    return apart is None or -b.lanes < apart < a.lanes


def _agree(terms: Sequence[_Term], kept: Sequence[_Kept]) -> bool:
    """Whether what is kept is read for the lanes only that are stored."""
    conds = {each.place: each.cond for each in kept}
    for term in terms:
        every = chain.from_iterable(accesses(term.store).values())
        touched = (Load(each.buffer, each.indices) for each in every)
        if any(conds.get(place, term.cond) is not term.cond for place in touched):
            return False
    return True


def _made(loop: For, kept: Sequence[_Kept], analyzer: Analyzer) -> Stmt:
    """The loops with registers, which are filled ahead of them and stored behind them."""
    registers: Mapping[Load, Load] = {each.place: each.register for each in kept}
    memo: dict[Expr, Expr] = {}

    def moved(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return map_children(stmt, moved)
        done = map_own_exprs(stmt, lambda e: map_loads(e, registers.get, memo))
        assert isinstance(done, Store)
        register = registers.get(Load(done.buffer, done.indices))
        return done if register is None else _into(register, done.value)

    fills = [_for_lanes(each.cond, _into(each.register, each.place)) for each in kept]
    ends = [_for_lanes(each.cond, _into(each.place, each.register)) for each in kept]
    made = seq(*fills, replace(loop, body=moved(loop.body)), *ends)
    for each in _chain(loop):
        if not analyzer.prove(each.extent > 0):
            made = If(each.extent > 0, made)
    for buffer in dict.fromkeys(each.register.buffer for each in kept):
        made = Alloc(buffer, made)
    return made


def _for_lanes(cond: Expr | None, stmt: Stmt) -> Stmt:
    return stmt if cond is None else If(cond, stmt)


def _into(place: Load, value: Expr) -> Store:
    return Store(place.buffer, place.indices, value)
