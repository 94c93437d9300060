"""lane_patterns: loads whose lanes lie at known distances come from vectors of neighbours.

So quotients, limits and runs backwards (resizing, reflected padding, flips) need no gathers, where
the place of the vector along the axis is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Const, Expr, Load, Select, binary, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.masked_tails import REGISTERS, lanes_between
from tensorir.passes.vectors.strides import LEAST
from tensorir.stmt import If, Stmt
from tensorir.vector_expr import Broadcast, Ramp, Shuffle
from tensorir.visit import map_children, map_loads, map_own_exprs

MOST_VECTORS = 4
"""Lanes that lie further apart than so many vectors reach, or half as many as there are lanes, are
gathered."""

Places = tuple[Expr, tuple[int, ...]]
"""An integer vector: a scalar, and what each lane adds to it."""


def lane_patterns(func: PrimFunc, masked_bits: Collection[int]) -> PrimFunc:
    """Load elements at known distances from each other as vectors of neighbours and shuffles.

    rewrite:
        A[i + ramp(0, 1, 4) // 2]   ->  shuffle(A[ramp(i, 1, 4)] of lanes 0 to 1, ..., 0, 0, 1, 1)
        A[i + ramp(6, -2, 4)]       ->  shuffle(A[ramp(i, 1, 4)], A[ramp(i + 3, 1, 4)], 7, 5, 2, 0)

    Nothing is read but what lies between the first and the last element that is wanted. That takes
    masks, of `masked_bits`, where these are less than a vector. Limits that no lane reaches count
    for nothing. Requires that vectorize and unroll ran.
    """
    bits, memo, analyzer = frozenset(masked_bits), dict[Expr, Expr](), function_analyzer(func)

    def expr(e: Expr) -> Expr:
        return map_loads(e, lambda load: _from_neighbours(load, bits, analyzer), memo)

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, If) and dt.lanes(stmt.cond.dtype) > 1:
            return stmt  # some of its lanes may lie outside of the buffer
        return map_children(map_own_exprs(stmt, expr), visit)

    return with_body(func, visit(func.body))


def _from_neighbours(load: Load, bits: frozenset[int], analyzer: Analyzer) -> Expr | None:
    count, index = dt.lanes(load.dtype), load.indices[0]
    if len(load.indices) != 1 or count < LEAST or dt.lanes(load.buffer.dtype) > 1:
        return None
    if isinstance(index, Ramp) and int_value(index.stride) == 1:
        return None
    found = places(index, analyzer)
    if found is None or dt.is_bool(load.dtype):
        return None
    base, at = found
    low, span = min(at), max(at) - min(at) + 1
    at = tuple(n - low for n in at)
    if span == 1:
        return Broadcast(Load(load.buffer, (base + low,)), count)
    if span > min(MOST_VECTORS, count // 2) * count:
        return None
    if span < count:
        masked = dt.bits(load.dtype) in bits and dt.bits(load.dtype) * count in REGISTERS
        if not masked:
            return None
        zero = 0.0 if dt.is_float(load.dtype) else 0
        none = Broadcast(Const(zero, dt.element(load.dtype)), count)
        vector = _vector(load, base + low)
        some = Select(lanes_between(0, span, count), vector, none)
        return Shuffle(some, some, at)
    return _chain(load, base + low, at, span)


def _chain(load: Load, base: Expr, at: tuple[int, ...], span: int) -> Expr:
    """The elements `at` their places from `base` on, of which the last is number span - 1."""
    count = len(at)
    starts = [*range(0, span - count, count), span - count]
    found: Expr | None = None
    done: set[int] = set()
    for start in starts:
        new = {n for n, place in enumerate(at) if 0 <= place - start < count} - done
        if not new:
            continue
        vector = _vector(load, base + start)
        if found is None:
            lanes = [at[n] - start if n in new else 0 for n in range(count)]
            found = vector if lanes == list(range(count)) else Shuffle(vector, vector, tuple(lanes))
        elif isinstance(found, Shuffle) and found.a is found.b and not isinstance(found.a, Shuffle):
            lanes = [count + at[n] - start if n in new else found.indices[n] for n in range(count)]
            found = Shuffle(found.a, vector, tuple(lanes))
        else:
            lanes = [count + at[n] - start if n in new else n for n in range(count)]
            found = Shuffle(found, vector, tuple(lanes))
        done |= new
    assert found is not None
    return found


def _vector(load: Load, base: Expr) -> Load:
    return Load(load.buffer, (Ramp(base, Const(1, base.dtype), dt.lanes(load.dtype)),))


def places(e: Expr, analyzer: Analyzer | None = None) -> Places | None:
    """An index vector as a scalar and distances that are known; None for others."""
    count = dt.lanes(e.dtype)
    if isinstance(e, Broadcast):
        return e.a, (0,) * count
    if isinstance(e, Ramp):
        stride, base = int_value(e.stride), int_value(e.base)
        if stride is None:
            return None
        steps = tuple(n * stride for n in range(count))
        return (e.base, steps) if base is None else _known([base + s for s in steps])
    if isinstance(e, BinOp) and e.op in _OPERATIONS and dt.is_int(e.dtype):
        a, b = places(e.a, analyzer), places(e.b, analyzer)
        if a is None or b is None:
            return None
        found = _combined(e.op, a, b)
        return found if found or not analyzer else _unlimited(e.op, a, b, analyzer)
    return None


def _known(values: list[int]) -> Places:
    return Const(0, dt.INDEX), tuple(values)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "min": min,
    "max": max,
}


def _combined(op: str, a: Places, b: Places) -> Places | None:
    if op in ("+", "-"):
        values = tuple(_OPERATIONS[op](x, y) for x, y in zip(a[1], b[1]))
        return binary(op, a[0], b[0]), values
    if int_value(a[0]) is None or int_value(b[0]) is None:
        return None
    left, right = ([(int_value(p[0]) or 0) + n for n in p[1]] for p in (a, b))
    if op in ("//", "%") and min(right) <= 0:
        return None
    return _known([_OPERATIONS[op](x, y) for x, y in zip(left, right)])


def _unlimited(op: str, a: Places, b: Places, analyzer: Analyzer) -> Places | None:
    """The side of a limit that all lanes take."""
    for x, y in ((a, b), (b, a)) if op in ("min", "max") else ():
        apart = [m - n for m, n in zip(x[1], y[1])]
        low, high = (y[0], x[0] + min(apart)) if op == "max" else (x[0] + max(apart), y[0])
        if analyzer.prove(low <= high):
            return x
    return None
