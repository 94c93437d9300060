"""bool_bytes: programs that move bools move their bytes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace as replace_fields

from tensorir.buffer import Buffer
from tensorir.expr import Cast, Const, Expr, Load, Select, select
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Extern, Prefetch, Stmt, Store, replace
from tensorir.visit import map_children, map_loads, map_own_exprs, walk

BYTE = "uint8"


def bool_bytes(func: PrimFunc) -> PrimFunc:
    """Make buffers of bool between which elements are moved buffers of uint8, which hold 0 or 1.

    rewrite:  (A and B of bool)
        B[i] = A[i + 1] if i < n else False   ->  B[i] = A[i + 1] if i < n else 0
        C[i] = X[i] if A[i] else 0.0          ->  C[i] = X[i] if bool(A[i]) else 0.0

    In vectors a bool is a mask, which loads make and stores undo; bytes are moved as they are, and
    all that passes know about vectors of bytes holds. Buffers that are only computed from, or
    handed to extern functions, stay. Requires that lower_blocks ran.
    """
    moved = _moved(func.body)
    if not moved:
        return func
    bytes_of = _Bytes(moved)
    params, buffers = (tuple(map(bytes_of.buffer, group)) for group in (func.params, func.buffers))
    return replace_fields(func, params=params, buffers=buffers, body=bytes_of.stmt(func.body))


def _moved(body: Stmt) -> frozenset[Buffer]:
    """The buffers of bool that are moved from or to, and that no extern function works on."""
    moved: set[Buffer] = set()
    handed: set[Buffer] = set()
    for s in walk(body):
        if isinstance(s, Extern):
            handed.update(part.buffer for part in s.parts)
        elif isinstance(s, Store) and s.buffer.dtype == "bool":
            sources = _sources(s.value)
            moved |= {s.buffer, *sources} if sources else sources
    return frozenset(moved - handed)


def _sources(value: Expr) -> set[Buffer]:
    """The buffers of which `value` is an element or a constant; none where it is computed."""
    found: set[Buffer] = set()
    seen: set[Expr] = {value}
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Load):
            found.add(node.buffer)
        elif isinstance(node, Select):
            pending += {node.a, node.b} - seen
            seen |= {node.a, node.b}
        elif not isinstance(node, Const):
            return set()
    return found


class _Bytes:
    def __init__(self, moved: Set[Buffer]) -> None:
        self.buffers = {b: Buffer(b.name, b.shape, BYTE, b.scope) for b in moved}
        self.memo: dict[Expr, Expr] = {}
        self.bytes: dict[Expr, Expr] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def stmt(self, stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, self.stmt)
        if isinstance(stmt, Store) and stmt.buffer in self.buffers:
            indices = tuple(map(self.expr, stmt.indices))
            return Store(self.buffers[stmt.buffer], indices, self.byte(stmt.value))
        stmt = map_own_exprs(stmt, self.expr)
        if isinstance(stmt, (Alloc, Prefetch)) and stmt.buffer in self.buffers:
            return replace(stmt, buffer=self.buffers[stmt.buffer])
        return stmt

    def byte(self, value: Expr) -> Expr:
        """0 or 1 for a value of bool."""
        found = self.bytes.get(value)
        if found is None:
            found = self.bytes[value] = self.new_byte(value)
        return found

    def new_byte(self, value: Expr) -> Expr:
        if isinstance(value, Const):
            return Const(int(value.value), BYTE)
        if isinstance(value, Load) and value.buffer in self.buffers:
            return Load(self.buffers[value.buffer], tuple(map(self.expr, value.indices)))
        if isinstance(value, Select):
            return select(self.expr(value.cond), self.byte(value.a), self.byte(value.b))
        return Cast(BYTE, self.expr(value))

    def expr(self, e: Expr) -> Expr:
        """`e` as it was, bools that lie in bytes converted."""
        return map_loads(e, self.truth, self.memo)

    def truth(self, load: Load) -> Expr | None:
        new = self.buffers.get(load.buffer)
        return None if new is None else Cast("bool", Load(new, load.indices))
