"""edges: what is beyond the edge of a tile is zero, and computed with instead of asked about.

Tiles are filled with zeros, so that one copy of the body computes without conditions; the other
conditions stand outside of the loops that they do not speak of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.iter_map import determines_all
from tensorir.arith.regions.region import relax
from tensorir.buffer import Buffer
from tensorir.expr import (
    BinOp,
    Cast,
    Const,
    Expr,
    Load,
    Var,
    all_of,
    binary,
    conjuncts,
    const,
    int_value,
    select,
)
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses
from tensorir.passes.facts.instances import bounds_an_index, for_the_element
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.asked_first import asked_first
from tensorir.passes.gpu.axes import THREAD_AXES, has_threads
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Exchange, Extern, For, ForKind, If, Stmt, Store, Sync, replace
from tensorir.visit import loads, map_children, variables, walk


def edges(func: PrimFunc) -> PrimFunc:
    """Take conditions off the statements that compute, where tiles are filled up with zeros.

    rewrite:
        if k * 8 + t < n:                       S[t] = select(k * 8 + t < n, A[k * 8 + t], 0.0)
            S[t] = A[k * 8 + t]
        sync("block")                           sync("block")
        for j in range(8):                ->    for j in range(8):
            if k * 8 + j < n:                       R[0] = R[0] + S[j] * S[j]
                R[0] = R[0] + S[j] * S[j]

    One copy of the body serves the edge and all else. A tile is filled if one statement writes all
    of it; registers are computed without a condition if what reads them has that condition anyway,
    or if the terms that it had left out are zero: a product of two that are. What is left of
    conditions stands outside of the loops that it does not speak of, which registers stand in the
    order for. Requires that place_buffers ran, and that buffers are not flat.
    """
    if not has_threads(func.body):
        return func
    found = _Edges(func)
    return with_body(func, hoisted(asked_first(found.result(), found.analyzer)))


def hoisted(stmt: Stmt) -> Stmt:
    """Conditions of a whole body outside of the loops that they do not speak of."""
    stmt = map_children(stmt, hoisted)
    if not isinstance(stmt, For) or stmt.kind is ForKind.THREAD:
        return stmt
    inner = stmt.body
    if not isinstance(inner, If) or inner.orelse is not None or _waits(inner):
        return stmt
    stmt, parts = _shortened(stmt, conjuncts(inner.cond))
    outside = [c for c in parts if stmt.var not in variables(c) and not c.has_loads]
    left = [c for c in parts if c not in outside]
    body = If(all_of(*left), inner.then) if left else inner.then
    made = replace(stmt, body=body)
    return If(all_of(*outside), made) if outside else made


def _shortened(loop: For, parts: Sequence[Expr]) -> tuple[For, list[Expr]]:
    """The loop without the last iterations that do nothing, and the conditions that are left."""
    left: list[Expr] = []
    for c in parts:
        bound = c.b if isinstance(c, BinOp) and c.op == "<" and c.a is loop.var else None
        count = None if bound is None else int_value(bound)
        if count is None or loop.const_extent is None:
            left.append(c)
        elif 0 <= count < loop.const_extent:
            loop = replace(loop, extent=const(count))
    return loop, left


def _waits(stmt: Stmt) -> bool:
    return any(isinstance(s, (Sync, Exchange)) for s in walk(stmt))


@dataclass(eq=False)
class _Write:
    """A store, the conditions around it inside of the allocation, and those that fall."""

    access: Access
    depth: int
    store: Store
    conditions: tuple[Expr, ...]
    inner: Mapping[Var, Expr]
    dropped: tuple[Expr, ...] = ()
    fill: tuple[Expr, ...] = field(default=())
    """The conditions in whose place a zero is stored."""


class _Edges:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.analyzer: Analyzer = function_analyzer(func)
        self.found = accesses(func.body)
        self.tiles: dict[Buffer, _Write] = {}
        self.used: set[Buffer] = set()
        self.changes: dict[Store, _Write] = {}

    def result(self) -> Stmt:
        allocated = {s.buffer: s for s in walk(self.func.body) if isinstance(s, Alloc)}
        private = {b: s for b, s in allocated.items() if b.scope != "global" and b in self.found}
        if not any(access.conditions for b in private for access in self.found[b]):
            return self.func.body
        writes = {b: self.writes(b, alloc) for b, alloc in private.items()}
        for buffer, made in writes.items():
            tile = self.tile(made[0]) if made is not None and len(made) == 1 else None
            if tile is not None:
                self.tiles[buffer] = tile
        for buffer, made in writes.items():
            if made is not None and buffer.scope == "local":
                self.free(buffer, made)
        for buffer in self.used:
            tile = self.tiles[buffer]
            self.changes.setdefault(tile.store, tile)
        return self.rewritten(self.func.body) if self.changes else self.func.body

    def writes(self, buffer: Buffer, alloc: Alloc) -> list[_Write] | None:
        """The stores of a buffer; None where conditions cannot be taken off them one by one."""
        made = []
        for access in self.found[buffer]:
            if not access.is_write:
                continue
            store, depth = access.path[-1], access.path.index(alloc) + 1
            if not isinstance(store, Store):
                return None
            conditions: list[Expr] = []
            for stmt in access.path[depth:]:
                if isinstance(stmt, If):
                    leaves = [s for s in walk(stmt) if isinstance(s, (Store, Extern, Exchange))]
                    if stmt.orelse is not None or len(leaves) > 1:
                        return None
                    conditions += conjuncts(stmt.cond)
            inner = dict(access.inner(depth))
            if buffer.scope == "shared":
                threads = [f for f in access.loops() if f.thread in THREAD_AXES]
                inner |= {f.var: f.extent for f in threads}
            made.append(_Write(access, depth, store, tuple(conditions), inner))
        return made or None

    def of_element(self, write: _Write, condition: Expr) -> bool:
        """Whether the element that is written decides the condition."""
        own = variables(condition) & write.inner.keys()
        return not condition.has_loads and determines_all(
            write.store.indices, list(own), write.inner, self.analyzer
        )

    def in_range(self, buffer: Buffer, indices: Sequence[Expr], given: Sequence[Expr]) -> bool:
        known = self.analyzer.assuming(all_of(*given)) if given else self.analyzer
        return all(
            known.prove(binary("<=", const(0), i)) and known.prove(i < size)
            for i, size in zip(indices, buffer.shape)
        )

    def bounds(self, condition: Expr, write: _Write) -> bool:
        """Whether the condition only keeps the element in the buffer."""
        store = write.store
        return bounds_an_index(condition, store.indices, store.buffer.shape, self.analyzer)

    def tile(self, write: _Write) -> _Write | None:
        """The only store of a buffer as one that fills all of it, if it can be."""
        buffer, store = write.store.buffer, write.store
        if any(load.buffer is buffer for load in loads(store.value)):
            return None
        kept = [c for c in write.conditions if not self.of_element(write, c)]
        dropped = [c for c in write.conditions if c not in kept]
        if not self.in_range(buffer, store.indices, kept):
            needed = [c for c in dropped if self.bounds(c, write)]
            kept, dropped = kept + needed, [c for c in dropped if c not in needed]
            if not self.in_range(buffer, store.indices, kept):
                return None
        if any(c.has_loads for c in kept) or not all(self.bounds(c, write) for c in kept):
            return None
        if not is_dense(store.indices, write.inner, self.analyzer):
            return None
        for index, size in zip(store.indices, buffer.shape):
            part = relax(index, write.inner, self.analyzer)
            if part is None or not self.analyzer.prove(binary("<=", part.low, const(0))):
                return None
            if not self.analyzer.prove(binary("<=", size, part.low + part.extent)):
                return None
        write.dropped = write.fill = tuple(dropped)
        return write

    def free(self, buffer: Buffer, writes: list[_Write]) -> None:
        """Take off the conditions of all stores to registers, if nothing sees the difference."""
        if not any(w.conditions for w in writes):
            return
        plans = [self.plan(w) for w in writes]
        if any(plan is None for plan in plans):
            return
        used: set[Buffer] = set()
        for write, plan in zip(writes, plans):
            assert plan is not None
            dropped, tiles = plan
            for read in self.found[buffer]:
                if read.is_write or any(read.path[-1] is w.store for w in writes):
                    continue
                known = self.analyzer.assuming(read.known)
                for c in dropped:
                    if not self.of_element(write, c):
                        continue
                    wanted = for_the_element(c, write.access, read, write.depth, self.analyzer)
                    if not known.prove(wanted):
                        return
            used |= tiles
        for write, plan in zip(writes, plans):
            assert plan is not None
            write.dropped, write.fill = tuple(plan[0]), ()
            self.changes[write.store] = write
        self.used |= used - {buffer}

    def plan(self, write: _Write) -> tuple[list[Expr], set[Buffer]] | None:
        """The conditions that can fall, if all that speak of the element can; and the tiles that
        have to be full for that."""
        buffer, store = write.store.buffer, write.store
        own = [c for c in write.conditions if self.of_element(write, c)]
        others = [c for c in write.conditions if c not in own]
        if not self.in_range(buffer, store.indices, others):
            return None
        mine = Load(buffer, store.indices)
        tiles: set[Buffer] = set()
        asked = [(load, others[:n]) for n, c in enumerate(others) for load in loads(c)]
        for load, given in [*asked, *((load, others) for load in loads(store.value))]:
            if load is mine:
                continue
            if load.buffer in self.tiles:
                tiles.add(load.buffer)
            elif load.buffer.scope != "global" or load.buffer not in self.func.params:
                return None
            if not self.in_range(load.buffer, load.indices, given):
                return None
        fallen = [c for c in others if self.vanishes(store, mine, c)]
        left = [c for c in others if c not in fallen]
        if fallen and not all(self.in_range(e.buffer, e.indices, left) for e in loads(store.value)):
            fallen = []
        return own + fallen, tiles

    def vanishes(self, store: Store, mine: Load, condition: Expr) -> bool:
        """Whether a sum is as it was where the condition does not hold: the term is zero there."""
        value = store.value
        if not isinstance(value, BinOp) or value.op != "+" or mine not in {value.a, value.b}:
            return False
        term = value.b if value.a is mine else value.a
        return self.zero(term, condition)

    def zero(self, e: Expr, condition: Expr) -> bool:
        """Whether `e` is zero where the condition does not hold."""
        if isinstance(e, Const):
            return e.value == 0
        if isinstance(e, Load):
            return condition in self.holes(e)
        if isinstance(e, Cast):
            return self.zero(e.a, condition)
        if isinstance(e, BinOp) and e.op in ("*", "+", "-"):
            return self.zero(e.a, condition) and self.zero(e.b, condition)
        return False

    def holes(self, load: Load) -> list[Expr]:
        """The conditions without which what is loaded from a tile is zero."""
        tile = self.tiles.get(load.buffer)
        if tile is None:
            return []
        access = tile.access
        read = Access(load.buffer, load.indices, access.path, frozenset(), False)
        found = [for_the_element(c, access, read, tile.depth, self.analyzer) for c in tile.fill]
        return [self.analyzer.simplify(c) for c in found]

    def rewritten(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            change = self.changes.get(stmt)
            if change is None or not change.fill:
                return stmt
            value = select(all_of(*change.fill), stmt.value, _zero(stmt.buffer.dtype))
            return Store(stmt.buffer, stmt.indices, value)
        made = map_children(stmt, self.rewritten)
        if not isinstance(stmt, If) or not isinstance(made, If) or stmt.orelse is not None:
            return made
        leaves = [s for s in walk(stmt.then) if isinstance(s, Store)]
        if len(leaves) != 1 or leaves[0] not in self.changes:
            return made
        gone = self.changes[leaves[0]].dropped
        left = [c for c in conjuncts(stmt.cond) if c not in gone]
        return If(all_of(*left), made.then) if left else made.then


def _zero(dtype: str) -> Const:
    if dt.is_bool(dtype):
        return Const(False, dtype)
    return Const(0.0 if dt.is_float(dtype) else 0, dtype)
