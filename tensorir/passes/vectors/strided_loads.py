"""strided_loads: elements at small strides come from vectors of neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Const, Expr, Load, Select, int_value
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.masked_tails import lanes_between
from tensorir.stmt import Seq, Stmt, Store, seq
from tensorir.vector_expr import Ramp, Shuffle
from tensorir.visit import (
    certain_loads,
    map_children,
    map_own_exprs,
    stmt_exprs,
    transform,
    walk,
    walk_exprs,
)

LEAST = 4
"""Vectors of fewer lanes are gathered as fast."""

MOST_STRIDE = 4
"""Elements further apart than this, or than half the lanes, are gathered: it would take that many
vectors to hold them."""


def strided_loads(func: PrimFunc) -> PrimFunc:
    """Load every other element as two contiguous vectors and a shuffle; likewise every third and
    fourth one, from three and four vectors.

    rewrite:
        A[ramp(i, 2, 4)]       ->  shuffle(A[ramp(i, 1, 4)], A[ramp(i + 3, 1, 4)], 0, 2, 5, 7)

        B[...] = A[ramp(i, 2, 4)]          B[...] = shuffle(A[ramp(i, 1, 4)],
                                      ->                    A[ramp(i + 4, 1, 4)], 0, 2, 4, 6)
        C[...] = A[ramp(i + 1, 2, 4)]      C[...] = shuffle(... the same two ..., 1, 3, 5, 7)

        A[ramp(i, 3, 4)]       ->  shuffle(shuffle(A[ramp(i, 1, 4)], A[ramp(i + 4, 1, 4)],
                                                   0, 3, 6, 0), A[ramp(i + 6, 1, 4)], 0, 1, 2, 7)

    The last vector ends with the last element that is wanted, so nothing is read that lies
    outside of what was; consecutive stores that want both halves share the two vectors. Requires
    that vectorize and unroll ran.
    """
    roots = [e for stmt in walk(func.body) for e in stmt_exprs(stmt) if e.has_loads]
    seen = set[Expr]()
    if not any(isinstance(e, Load) and _strided(e) for r in roots for e in walk_exprs(r, seen)):
        return func
    return with_body(func, _visit(func.body))


def _visit(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Store):
        return _rewritten([stmt])[0]
    if not isinstance(stmt, Seq):
        return map_children(map_own_exprs(stmt, lambda e: _split(e, {})), _visit)
    found: list[Stmt] = []
    run: list[Store] = []
    for child in stmt.stmts:
        if isinstance(child, Store):
            run.append(child)
            continue
        found += [*_rewritten(run), _visit(child)]
        run = []
    found += _rewritten(run)
    same = len(found) == len(stmt.stmts) and all(a is b for a, b in zip(found, stmt.stmts))
    return stmt if same else seq(*found)


def _rewritten(run: Sequence[Store]) -> list[Stmt]:
    partners = _partners(run)
    return [map_own_exprs(store, lambda e: _split(e, partners)) for store in run]


def _split(e: Expr, partners: dict[Load, Load]) -> Expr:
    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or not _strided(node):
            return None
        first = partners.get(node)
        return _one(node) if first is None else _half(first, node is not first)

    return transform(e, rule)


def _strided(load: Load) -> bool:
    index = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(index, Ramp):
        return False
    if not 2 <= _stride(load) <= min(MOST_STRIDE, index.lanes // 2):
        return False
    known = dt.lanes(load.buffer.dtype) == 1 and not dt.is_bool(load.dtype)
    return known and index.lanes >= LEAST and index.lanes % 2 == 0


def _stride(load: Load) -> int:
    """How far apart the elements of a load of a ramp lie; 0 where that is not known."""
    index = load.indices[0]
    assert isinstance(index, Ramp)
    return int_value(index.stride) or 0


def _one(load: Load) -> Expr:
    """The elements of one load, from vectors that begin and end with the first and the last."""
    count, step = dt.lanes(load.dtype), _stride(load)
    found: Expr = _vector(load, 0)
    known = -(-count // step)  # lanes that are in place, or will be after the first shuffle
    for n in range(1, step):
        start = min(n * count, (count - 1) * (step - 1))
        reached = -(-(start + count) // step)
        before = [lane * step if n == 1 else lane for lane in range(known)]
        added = [count + lane * step - start for lane in range(known, reached)]
        lanes = [*before, *added, *([0] * (count - reached))]
        found, known = Shuffle(found, _vector(load, start), tuple(lanes)), reached
    return found


def some_lanes(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours or of every other element, else `none`."""
    count, index = dt.lanes(load.dtype), load.indices[0]
    assert isinstance(index, Ramp)
    if int_value(index.stride) == 1:
        return _between(load, low, high, none)
    parts = [
        _between(_vector(load, start), low * 2 - start, high * 2 - 1 - start, none)
        for start in (0, count)
    ]
    return Shuffle(parts[0], parts[1], tuple(range(0, 2 * count, 2)))


def _between(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours, else `none`."""
    count, first, end = dt.lanes(load.dtype), int_value(low), int_value(high)
    if first is None or end is None:
        return Select(lanes_between(low, high, count), load, none)
    first, end = max(0, first), min(count, end)
    if first >= end:
        return none
    whole = (first, end) == (0, count)
    return load if whole else Select(lanes_between(first, end, count), load, none)


def _half(first: Load, odd: bool) -> Expr:
    """The elements of `first`, or of the load one element further on, of all that they span."""
    count = dt.lanes(first.dtype)
    lanes = tuple(range(odd, 2 * count, 2))
    return Shuffle(_vector(first, 0), _vector(first, count), lanes)


def _vector(load: Load, offset: int) -> Load:
    index = load.indices[0]
    assert isinstance(index, Ramp)
    one = Const(1, index.base.dtype)
    return Load(load.buffer, (Ramp(index.base + offset, one, index.lanes),))


def _partners(run: Sequence[Store]) -> dict[Load, Load]:
    """From the loads of a pair of neighbours, both made whatever the conditions, to its first."""
    places: dict[tuple[object, Expr, int], dict[int, Load]] = {}
    for store in run:
        for root in (*store.indices, store.value):
            for load in certain_loads(root):
                if not _strided(load) or _stride(load) != 2:
                    continue
                base, offset = _place(load)
                places.setdefault((load.buffer, base, dt.lanes(load.dtype)), {})[offset] = load
    found: dict[Load, Load] = {}
    for loads in places.values():
        for offset in sorted(loads):
            if loads[offset] not in found and offset + 1 in loads:
                found[loads[offset]] = found[loads[offset + 1]] = loads[offset]
    return found


def _place(load: Load) -> tuple[Expr, int]:
    """Where a load begins: a variable part, and a constant."""
    index = load.indices[0]
    assert isinstance(index, Ramp)
    base = Analyzer().simplify(index.base)
    if isinstance(base, BinOp) and base.op in ("+", "-"):
        constant = int_value(base.b)
        if constant is not None:
            return base.a, constant if base.op == "+" else -constant
    constant = int_value(base)
    return (base, 0) if constant is None else (Const(0, base.dtype), constant)
