"""The least and the largest value that integers can have which are computed from data."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import dtype as dt
from tensorir.arith.interval import OPERATIONS
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Cast, Const, Expr, Load, Select, Var
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Extern, Let, Stmt, Store
from tensorir.vector_expr import Broadcast, Shuffle
from tensorir.visit import walk

Interval = tuple[int, int]

HELD = "held"
"""The attribute of a function that has, by name, the least and the largest integer of buffers that
another one writes."""


class Intervals:
    """Intervals of expressions, of vectors those of all lanes. If a body is given, what its
    variables hold is known from it, and what its intermediates do, `buffers` and those that it
    allocates; of inputs what its function says that they hold (`HELD`)."""

    def __init__(self, body: Stmt | None = None, buffers: Sequence[Buffer] = ()) -> None:
        self.known: dict[Expr | Buffer, Interval | None] = {}
        self.values: dict[Var | Buffer, list[Expr]] = {b: [] for b in buffers if dt.is_int(b.dtype)}
        """What variables are, and what is stored in buffers that nothing else writes."""
        for stmt in () if body is None else walk(body):
            if isinstance(stmt, Alloc) and dt.is_int(stmt.buffer.dtype):
                self.values.setdefault(stmt.buffer, [])
            elif isinstance(stmt, Let):
                self.values[stmt.var] = [stmt.value]
        for stmt in () if body is None else walk(body):
            if isinstance(stmt, Store) and stmt.buffer in self.values:
                self.values[stmt.buffer].append(stmt.value)
            elif isinstance(stmt, Extern):
                for part in stmt.parts:
                    self.values.pop(part.buffer, None)

    @classmethod
    def within(cls, func: PrimFunc) -> Intervals:
        """Of a lowered function."""
        made, held = cls(func.body), func.attrs.get(HELD, {})
        made.known.update({b: (*held[b.name],) for b in func.inputs if b.name in held})
        return made

    def of(self, e: Expr) -> Interval | None:
        """The least and the largest value of `e`; None where it may wrap, or have any value."""
        if e not in self.known:
            parts = parts_of(e)
            ends = [self.of(part) for part in parts]
            self.known[e] = _joined(e, ends) if parts else self._leaf(e)
        return self.known[e]

    def _leaf(self, e: Expr) -> Interval | None:
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if isinstance(e, (Load, Var)):
            return self.held(e.buffer if isinstance(e, Load) else e)
        if not isinstance(e, Cast):
            return None
        if dt.is_bool(e.a.dtype):
            return 0, 1
        if not dt.is_int(e.a.dtype) or dt.bits(e.a.dtype) >= dt.bits(e.dtype):
            return None
        low, high = dt.int_limits(e.a.dtype)
        return None if low < dt.int_limits(e.dtype)[0] else (low, high)

    def held(self, name: Var | Buffer) -> Interval | None:
        """What a variable or a buffer holds. Lanes that a mask leaves out are read as 0."""
        if name not in self.known:
            self.known[name] = None  # of what is made of itself
            found = [self.of(value) for value in self.values.get(name, ())]
            known = [each for each in found if each is not None]
            if known and len(known) == len(found):
                self.known[name] = _around([(0, 0), *known])
        return self.known[name]


def parts_of(e: Expr) -> tuple[Expr, ...]:
    """What `e` is computed from in its own type, or has its lanes of."""
    if isinstance(e, BinOp) and e.op in OPERATIONS:
        return e.a, e.b
    if isinstance(e, Broadcast):
        return (e.a,)
    return (e.a, e.b) if isinstance(e, (Select, Shuffle)) else ()


def _around(ends: Sequence[Interval]) -> Interval:
    return min(low for low, _ in ends), max(high for _, high in ends)


def _joined(e: Expr, ends: Sequence[Interval | None]) -> Interval | None:
    """The interval of an operation on numbers of known intervals, if it does not wrap."""
    known = [each for each in ends if each is not None]
    if len(known) < len(ends):
        return None
    if not isinstance(e, BinOp):
        return _around(known)
    low, high = OPERATIONS[e.op](*known)
    least, most = dt.int_limits(e.dtype)
    if low is None or high is None or low < least or high > most:
        return None
    return low, high
