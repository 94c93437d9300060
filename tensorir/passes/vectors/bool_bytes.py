"""bool_bytes: bools of the caller are bytes, and programs that move bools move their bytes.

A byte of the caller may hold any number, of which all but 0 are True; what a program writes is 0 or
1. So parameters that are read become uint8, and buffers between which a store only moves elements
(its value is made of loads, constants and selects), unless an extern function works on them.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import replace as replace_fields

from tensorir.buffer import Buffer
from tensorir.expr import Cast, Const, Expr, Load, Select, Var, minimum, select
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.parts import replace_buffers
from tensorir.stmt import Alloc, Extern, For, Prefetch, Stmt, Store, replace, seq
from tensorir.visit import loads, map_children, map_loads, map_own_exprs, stmt_exprs, walk

BYTE = "uint8"


def bool_bytes(func: PrimFunc) -> PrimFunc:
    """Make parameters of bool that are read, and buffers of bool between which elements are moved,
    buffers of uint8.

    rewrite:  (A, B and C of bool, X and D of float32)
        B[i] = A[i + 1] if i < n else False   ->  B[i] = min(A[i + 1] if i < n else 0, 1)
        C[i] = B[i]                           ->  C[i] = B[i]
        D[i] = X[i] if A[i] else 0.0          ->  D[i] = X[i] if bool(A[i]) else 0.0

    A byte of the caller may hold any number, of which all but 0 are True; other buffers hold 0 or
    1. In vectors a bool is a mask, which loads make and stores undo; bytes are moved as they are,
    and all that passes know about vectors of bytes holds. Buffers that are only computed from, or
    handed to extern functions, stay; those get copies of the caller's bools. Requires that
    lower_blocks ran.
    """
    if all(b.dtype != "bool" for b in (*func.params, *func.buffers)):
        return func
    handed = _handed(func.body)
    handed_in = [p for p in func.params if p.dtype == "bool" and p in handed and p in func.given]
    func = _with_copies(func, handed_in)
    given = _given(func)
    moved = _moved(func.body) - _handed(func.body) | given
    if not moved:
        return func
    bytes_of = _Bytes(moved, given)
    params, buffers = (tuple(map(bytes_of.buffer, group)) for group in (func.params, func.buffers))
    return replace_fields(func, params=params, buffers=buffers, body=bytes_of.stmt(func.body))


def _handed(body: Stmt) -> set[Buffer]:
    """The buffers that extern functions work on."""
    return {p.buffer for s in walk(body) if isinstance(s, Extern) for p in s.parts}


def _with_copies(func: PrimFunc, params: Collection[Buffer]) -> PrimFunc:
    """`func` on copies of some of its parameters."""
    if not params:
        return func
    body = func.body
    names = Names(b.name for b in (*func.params, *func.buffers))
    names.taken |= {s.var.name for s in walk(body) if isinstance(s, For)}
    copies = {p: Buffer(names.unique(f"{p.name}_bools"), p.shape, "bool") for p in params}
    pairs = list(copies.items())
    back = [(copy, param) for param, copy in pairs if param in func.outputs]
    before, after = ([_copy(a, b, names) for a, b in group] for group in (pairs, back))
    body = seq(*before, replace_buffers(body, copies), *after)
    return replace_fields(func, buffers=(*func.buffers, *copies.values()), body=body)


def _copy(source: Buffer, target: Buffer, names: Names) -> Stmt:
    axes = tuple(Var(names.unique(f"{target.name}_{d}"), "int64") for d in range(source.ndim))
    nest: Stmt = Store(target, axes, Load(source, axes))
    for var, extent in zip(reversed(axes), reversed(source.shape)):
        nest = For(var, extent, nest)
    return nest


def _given(func: PrimFunc) -> frozenset[Buffer]:
    """The parameters of bool that are read by expressions."""
    read = {load.buffer for s in walk(func.body) for e in stmt_exprs(s) for load in loads(e)}
    return frozenset(p for p in func.params if p.dtype == "bool" and p in read)


def _moved(body: Stmt) -> frozenset[Buffer]:
    """The buffers of bool that are moved from or to."""
    moved: set[Buffer] = set()
    for s in walk(body):
        if isinstance(s, Store) and s.buffer.dtype == "bool":
            sources = _sources(s.value)
            moved |= {s.buffer, *sources} if sources else sources
    return frozenset(moved)


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
    def __init__(self, moved: Set[Buffer], given: Set[Buffer]) -> None:
        self.given = given
        self.buffers = {b: Buffer(b.name, b.shape, BYTE, b.scope) for b in moved}
        self.memo: dict[Expr, Expr] = {}
        self.bytes: dict[Expr, Expr] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer, buffer)

    def stmt(self, stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, self.stmt)
        if isinstance(stmt, Store) and stmt.buffer in self.buffers:
            indices = tuple(map(self.expr, stmt.indices))
            value = self.byte(stmt.value)
            if not self.given.isdisjoint(_sources(stmt.value)):
                value = minimum(value, Const(1, BYTE))
            return Store(self.buffers[stmt.buffer], indices, value)
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
