"""hold_reads: what a nest that is written out reads of memory is read once, neighbours together.

A sum of products reads each row for all columns and each column for all rows. Compilers find that
out and merge neighbours where they can prove alignment, so that the text said little about what a
kernel asks of memory. Here it is said: what a thread reads again is in an array of its own, copied
by accesses as wide as they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import has_threads
from tensorir.passes.gpu.vector_accesses import BITS, is_aligned
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.passes.vectors.widen import Lanes, NotVectorizable
from tensorir.stmt import Alloc, For, ForKind, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp
from tensorir.visit import (
    certain_loads,
    map_children,
    map_loads,
    map_own_exprs,
    stmt_exprs,
    substitute,
)

MOST_HELD = 64
"""Elements that a thread keeps of one read of a nest, at most."""


def hold_reads(func: PrimFunc) -> PrimFunc:
    """Copy what a written-out nest reads again, or what lies side by side, to registers first.

    rewrite:
        for k in unrolled(8):                for k in unrolled(8):
            for i in unrolled(2):                with alloc(V, f32[4]):
                for j in unrolled(4):            V[ramp(0, 1, 4)] = S[ramp(k * 32 + t * 4, 1, 4)]
                    R[i * 4 + j] =       ->      for i in unrolled(2):
                        S[k * 32 + t * 4 + j]        for j in unrolled(4):
                                                         R[i * 4 + j] = V[j]

    Of nests of unrolled loops that store to registers alone, so that nothing which is read changes
    meanwhile, and of what they read whatever conditions are. A copy is made in the loops that all
    of it differs in. Requires vector_accesses.
    """
    if not has_threads(func.body):
        return func
    fresh = fresh_names(func.body, [b.name for b in (*func.params, *func.buffers)])
    return with_body(func, _visit(func.body, function_analyzer(func), fresh))


def _visit(stmt: Stmt, analyzer: Analyzer, fresh: Callable[[str], str]) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is ForKind.UNROLLED:
        nest = _Nest.of(stmt)
        if nest is not None:
            return nest.in_vectors(analyzer, fresh).held(analyzer, fresh)
    return map_children(stmt, lambda child: _visit(child, analyzer, fresh))


class _Copy:
    """An array for what a load reads: copied in the first `depth` loops, by a nest over `loops`,
    whose last one has `lanes` neighbours at once."""

    def __init__(
        self, load: Load, array: Buffer, depth: int, loops: Sequence[For], lanes: int
    ) -> None:
        self.load, self.array, self.depth = load, array, depth
        self.loops, self.lanes = loops, lanes

    def place(self) -> Expr:
        """Where in the array the element of each iteration is."""
        index: Expr = const(0)
        for loop in self.loops:
            index = index * (loop.const_extent or 1) + loop.var
        return index

    def stmt(self, analyzer: Analyzer) -> Stmt:
        """What copies."""
        if self.lanes == 1:
            made: Stmt = Store(self.array, (self.place(),), self.load)
            return _around(self.loops, made)
        *outer, last = self.loops
        to, of = (_ramp(e, last, self.lanes, analyzer) for e in (self.place(), *self.load.indices))
        count = Const((last.const_extent or 1) // self.lanes, dt.INDEX)
        made = Store(self.array, (to,), Load(self.load.buffer, (of,)))
        return _around([*outer, replace(last, extent=count)], made)


def _around(loops: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body


def _ramp(index: Expr, loop: For, lanes: int, analyzer: Analyzer) -> Expr:
    """An index for neighbouring iterations of a loop, the variable of which counts vectors."""
    number = Var(f"{loop.var.name}.vector")
    found = Lanes(loop.var, number * lanes, lanes, analyzer).expr(index)
    return substitute(found, {number: loop.var})


def _substituted(s: Store, place: Mapping[Var, Expr]) -> Store:
    indices = tuple(substitute(index, place) for index in s.indices)
    return Store(s.buffer, indices, substitute(s.value, place))


class _Nest:
    """Loops around stores to registers, one in the other."""

    def __init__(self, loops: tuple[For, ...], stores: tuple[Store, ...]) -> None:
        self.loops, self.stores = loops, stores

    @classmethod
    def of(cls, stmt: Stmt) -> _Nest | None:
        """The nest that a loop begins; None where it is something else."""
        loops = list[For]()
        while isinstance(stmt, For):
            plain = stmt.kind is ForKind.UNROLLED and not stmt.annotations
            if not plain or stmt.const_extent is None:
                return None
            loops.append(stmt)
            stmt = stmt.body
        stores = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
        if not all(isinstance(s, Store) and s.buffer.scope == "local" for s in stores):
            return None
        return cls(tuple(loops), tuple(s for s in stores if isinstance(s, Store)))

    def reads(self) -> list[Load]:
        """Single elements of memory that are read in each iteration, from places that nothing in
        memory or registers says."""
        every = (e for s in self.stores for x in stmt_exprs(s) for e in certain_loads(x))
        return [
            load
            for load in dict.fromkeys(every)
            if load.buffer.scope != "local" and dt.lanes(load.dtype) == 1 == len(load.indices)
            if not load.indices[0].has_loads
        ]

    def in_vectors(self, analyzer: Analyzer, fresh: Callable[[str], str]) -> _Nest:
        """The same with loops along which neighbours are read cut into vectors of them."""
        widest = dict[int, int]()
        for load in self.reads():
            n, lanes = self.neighbours(load, analyzer)
            widest[n] = max(lanes, widest.get(n, 1))
        loops, stores = list[For](), list(self.stores)
        for n, loop in enumerate(self.loops):
            lanes, extent = widest.get(n, 1), loop.const_extent or 1
            loops.append(loop)
            if 1 < lanes < extent:
                lane = Var(fresh(f"{loop.var.name}_lane"), loop.var.dtype)
                analyzer.bind(lane, lanes)
                count = Const(extent // lanes, dt.INDEX)
                loops[-1:] = [replace(loop, extent=count)]
                loops.append(replace(loop, var=lane, extent=Const(lanes, dt.INDEX)))
                place = {loop.var: loop.var * lanes + lane}
                stores = [_substituted(s, place) for s in stores]
        return _Nest(tuple(loops), tuple(stores))

    def held(self, analyzer: Analyzer, fresh: Callable[[str], str]) -> Stmt:
        """The nest with what it reads again, or neighbours, in registers."""
        copies = list[_Copy]()
        for load in self.reads():
            copies += self.copy(load, analyzer, fresh)
        if not copies:
            return _around(self.loops, seq(*self.stores))
        held = {copy.load: Load(copy.array, (copy.place(),)) for copy in copies}
        memo = dict[Expr, Expr]()

        def from_registers(e: Expr) -> Expr:
            return map_loads(e, held.get, memo)

        body = seq(*[map_own_exprs(s, from_registers) for s in self.stores])
        for depth in range(len(self.loops), -1, -1):
            here = [copy for copy in copies if copy.depth == depth]
            body = seq(*[copy.stmt(analyzer) for copy in here], body)
            for copy in here:
                body = Alloc(copy.array, body)
            if depth:
                body = replace(self.loops[depth - 1], body=body)
        return body

    def copy(self, load: Load, analyzer: Analyzer, fresh: Callable[[str], str]) -> list[_Copy]:
        """The copy for a load; none where each iteration reads something else, alone."""
        used = [loop.var in load.indices[0].variables for loop in self.loops]
        near, lanes = self.neighbours(load, analyzer)
        depth = min(near, next((n for n, moves in enumerate(used) if not moves), len(used)))
        inside = [n for n in range(depth, len(used)) if used[n] and n != near]
        loops = [self.loops[n] for n in (*inside, near) if n < len(used)]
        held = prod(loop.const_extent or 1 for loop in loops)
        if held > MOST_HELD or (all(used) and lanes == 1):
            return []
        array = Buffer(fresh(f"{load.buffer.name}_held"), (const(held),), load.dtype, "local")
        return [_Copy(load, array, depth, loops, lanes)]

    def neighbours(self, load: Load, analyzer: Analyzer) -> tuple[int, int]:
        """The loop along which a load can be of several neighbours, and of how many; behind all
        loops, and one, where there is none."""
        for n in range(len(self.loops) - 1, -1, -1):
            if self.loops[n].var in load.indices[0].variables:
                lanes = self.vector(load, n, analyzer)
                if lanes > 1:
                    return n, lanes
        return len(self.loops), 1

    def vector(self, load: Load, n: int, analyzer: Analyzer) -> int:
        """Neighbours along a loop that can be read at once."""
        extent, index = self.loops[n].const_extent or 1, load.indices[0]
        lanes = BITS // dt.bits(load.buffer.dtype)
        while lanes > 1:
            if extent % lanes == 0:
                try:
                    ramp = _ramp(index, self.loops[n], lanes, analyzer)
                except NotVectorizable:
                    return 1
                near = isinstance(ramp, Ramp) and int_value(ramp.stride) == 1
                if not (near and isinstance(ramp, Ramp)):
                    return 1
                if is_aligned(load.buffer, ramp, analyzer):
                    return lanes
            lanes //= 2
        return 1
