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
from tensorir.arith.slope import Together, moved_together
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, Select, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import has_threads
from tensorir.passes.gpu.vector_accesses import BITS, is_aligned
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.passes.vectors.widen import Lanes, NotVectorizable
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt, Store, replace, seq
from tensorir.targets.gpu import Gpu
from tensorir.vector_expr import Ramp
from tensorir.visit import (
    certain_loads,
    map_children,
    map_loads,
    map_own_exprs,
    stmt_exprs,
    substitute,
    walk_exprs,
)

MOST_STORES = 8
"""Stores that iterations which conditions ask for are written as."""


def hold_reads(func: PrimFunc) -> PrimFunc:
    """Copy what a written-out nest reads again, or what lies side by side, to registers first.

    rewrite:
        for k in unrolled(8):                for k in unrolled(8):
            for i in unrolled(2):                with alloc(V, f32[4]):
                for j in unrolled(4):            V[ramp(0, 1, 4)] = S[ramp(k * 32 + t * 4, 1, 4)]
                    R[i * 4 + j] =       ->      for i in unrolled(2):
                        S[k * 32 + t * 4 + j]        for j in unrolled(4):
                                                         R[i * 4 + j] = V[j]

    What several loops move by the sum of their variables alone, as `S[i + j]`, is held once for
    each sum. Of nests of unrolled loops that store to registers alone, so that nothing which is
    read changes meanwhile, and of what they read whatever conditions of values are. A copy is made
    in the loops that all of it differs in, and around conditions where some iteration surely reads
    it: what lies past an end is asked for element by element. Requires vector_accesses.
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
    whose last one has `lanes` neighbours at once; the variable of one of them stands for the sum of
    those that are a `window`."""

    def __init__(
        self, load: Load, array: Buffer, depth: int, loops: Sequence[For], lanes: int,
        window: tuple[Var, Together] | None = None,
    ) -> None:  # fmt: skip
        self.load, self.array, self.depth = load, array, depth
        self.loops, self.lanes, self.window = loops, lanes, window

    def place(self) -> Expr:
        """Where in the array the element of each iteration is."""
        if self.window is None:
            return self._place()
        var, together = self.window
        return substitute(self._place(), {var: together.place})

    def _place(self) -> Expr:
        index: Expr = const(0)
        for loop in self.loops:
            index = index * (loop.const_extent or 1) + loop.var
        return index

    def stmt(self, analyzer: Analyzer) -> Stmt:
        """What copies."""
        (read,) = self.load.indices
        if self.window is not None:
            var, together = self.window
            read = substitute(read, together.at(var))
        if self.lanes == 1:
            made: Stmt = Store(self.array, (self._place(),), Load(self.load.buffer, (read,)))
            return _around(self.loops, made)
        *outer, last = self.loops
        to, of = (_ramp(e, last, self.lanes, analyzer) for e in (self._place(), read))
        count = Const((last.const_extent or 1) // self.lanes, dt.INDEX)
        made = Store(self.array, (to,), Load(self.load.buffer, (of,)))
        return _around([*outer, replace(last, extent=count)], made)


def _around(loops: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = _inside(loop, body)
    return body


def _inside(level: For | If, body: Stmt) -> Stmt:
    return replace(level, then=body) if isinstance(level, If) else replace(level, body=body)


def _ramp(index: Expr, loop: For, lanes: int, analyzer: Analyzer) -> Expr:
    """An index for neighbouring iterations of a loop, the variable of which counts vectors."""
    number = Var(f"{loop.var.name}.vector")
    found = Lanes(loop.var, number * lanes, lanes, analyzer).expr(index)
    return substitute(found, {number: loop.var})


def _substituted(s: Store, place: Mapping[Var, Expr]) -> Store:
    indices = tuple(substitute(index, place) for index in s.indices)
    return Store(s.buffer, indices, substitute(s.value, place))


def _is_asked(loop: For, stores: Sequence[Store]) -> bool:
    """Whether conditions of values ask for the iteration of an inner loop of few of them, such as
    the parts of a complex number: written one by one, each reads what it does in any case."""
    few = len(stores) * (loop.const_extent or 1) <= MOST_STORES
    values = (e for s in stores for e in walk_exprs(s.value) if isinstance(e, Select))
    return few and any(loop.var in e.cond.variables for e in values)


class _Nest:
    """Loops and conditions around stores to registers, one in the other."""

    def __init__(self, levels: tuple[For | If, ...], stores: tuple[Store, ...]) -> None:
        self.levels, self.stores = levels, stores

    @classmethod
    def of(cls, stmt: Stmt) -> _Nest | None:
        """The nest that a loop begins; None where it is something else."""
        levels = list[For | If]()
        while isinstance(stmt, (For, If)):
            if isinstance(stmt, If):
                plain = stmt.orelse is None
            else:
                plain = stmt.kind is ForKind.UNROLLED and not stmt.annotations
                plain = plain and stmt.const_extent is not None
            if not plain:
                return None
            levels.append(stmt)
            stmt = stmt.then if isinstance(stmt, If) else stmt.body
        stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
        stores = tuple(s for s in stmts if isinstance(s, Store) and s.buffer.scope == "local")
        if len(stores) < len(stmts):
            return None
        while len(levels) > 1 and isinstance(last := levels[-1], For) and _is_asked(last, stores):
            levels.pop()
            numbers = range(last.const_extent or 0)
            stores = tuple(_substituted(s, {last.var: const(n)}) for n in numbers for s in stores)
        return cls(tuple(levels), stores)

    def loops(self, load: Load, depth: int, moving: bool = True) -> list[int]:
        """The loops from a level on that move a load, or those that do not."""
        return [
            n for n, level in enumerate(self.levels)
            if n >= depth and isinstance(level, For)
            and (level.var in load.indices[0].variables) is moving
        ]  # fmt: skip

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
            n, lanes = self.neighbours(load, 0, analyzer)
            widest[n] = max(lanes, widest.get(n, 1))
        levels, place = list[For | If](), dict[Var, Expr]()
        for n, level in enumerate(self.levels):
            levels.append(level)
            if isinstance(level, If):
                levels[-1] = replace(level, cond=substitute(level.cond, place))
                continue
            lanes, extent = widest.get(n, 1), level.const_extent or 1
            if 1 < lanes < extent:
                lane = Var(fresh(f"{level.var.name}_lane"), level.var.dtype)
                analyzer.bind(lane, lanes)
                count = Const(extent // lanes, dt.INDEX)
                levels[-1:] = [replace(level, extent=count)]
                levels.append(replace(level, var=lane, extent=Const(lanes, dt.INDEX)))
                place[level.var] = level.var * lanes + lane
        return _Nest(tuple(levels), tuple(_substituted(s, place) for s in self.stores))

    def held(self, analyzer: Analyzer, fresh: Callable[[str], str]) -> Stmt:
        """The nest with what it reads again, or neighbours, in registers."""
        copies = list[_Copy]()
        for load in self.reads():
            copies += self.copy(load, analyzer, fresh)
        held = {copy.load: Load(copy.array, (copy.place(),)) for copy in copies}
        memo = dict[Expr, Expr]()

        def from_registers(e: Expr) -> Expr:
            return map_loads(e, held.get, memo)

        body = seq(*[map_own_exprs(s, from_registers) for s in self.stores])
        for depth in range(len(self.levels), -1, -1):
            here = [copy for copy in copies if copy.depth == depth]
            body = seq(*[copy.stmt(analyzer) for copy in here], body)
            for copy in here:
                body = Alloc(copy.array, body)
            if depth:
                body = _inside(self.levels[depth - 1], body)
        return body

    def copy(self, load: Load, analyzer: Analyzer, fresh: Callable[[str], str]) -> list[_Copy]:
        """The copy for a load; none where each iteration reads something else, alone."""
        within, start = -1, 0
        while within < start:  # below conditions that may keep all iterations from reading it
            within = start
            near, lanes = self.neighbours(load, within, analyzer)
            again = self.loops(load, within, moving=False)
            window = self.window(load, near, within)
            summed = {} if window is None else dict(window.steps)
            sums = [n for n, x in enumerate(self.levels) if isinstance(x, For) and x.var in summed]
            depth = min([near, *again, *sums])
            start = self.behind_conditions(load, depth, analyzer)
        inside = [n for n in self.loops(load, depth) if n != near and n not in sums]
        places = [*sums[:1], *inside, *[near][: near < len(self.levels)]]
        loops = [level for n in places if isinstance(level := self.levels[n], For)]
        made = None
        if window is not None:
            made = Var(fresh(f"{loops[0].var.name}_sum"), loops[0].var.dtype), window
            loops[0] = replace(loops[0], var=made[0], extent=window.extent)
            analyzer.bind(made[0], window.extent)
        held = prod(loop.const_extent or 1 for loop in loops)
        if held > Gpu.most_held or not (again or sums or lanes > 1):
            return []
        array = Buffer(fresh(f"{load.buffer.name}_held"), (const(held),), load.dtype, "local")
        return [_Copy(load, array, depth, loops, lanes, made)]

    def window(self, load: Load, near: int, depth: int) -> Together | None:
        """The loops from a level on, but that of neighbours, that move a load by their sum alone;
        None where each iteration has a place of its own."""
        loops = [self.levels[n] for n in self.loops(load, depth) if n != near]
        extents = {loop.var: loop.extent for loop in loops if isinstance(loop, For)}
        return next(iter(moved_together(load.indices[0], extents)), None)

    def behind_conditions(self, load: Load, depth: int, analyzer: Analyzer) -> int:
        """The first level where a load can be copied, from `depth` on: where all conditions below
        are true in one of the iterations that read the same, the first, it is read anyway."""
        first = {
            level.var: const(0) for n in self.loops(load, depth, moving=False)
            if isinstance(level := self.levels[n], For)
        }  # fmt: skip
        unsure = [
            n + 1 for n, level in enumerate(self.levels)
            if n >= depth and isinstance(level, If)
            and not analyzer.prove(substitute(level.cond, first))
        ]  # fmt: skip
        return max(unsure, default=depth)

    def neighbours(self, load: Load, depth: int, analyzer: Analyzer) -> tuple[int, int]:
        """The loop from a level on along which a load can be of several neighbours, and of how
        many; behind all loops, and one, where there is none. No condition parts them."""
        asked = set[Var]().union(*(x.cond.variables for x in self.levels if isinstance(x, If)))
        for n in reversed(self.loops(load, depth)):
            loop = self.levels[n]
            if isinstance(loop, For) and loop.var not in asked:
                lanes = self.vector(load, loop, analyzer)
                if lanes > 1:
                    return n, lanes
        return len(self.levels), 1

    def vector(self, load: Load, loop: For, analyzer: Analyzer) -> int:
        """Neighbours along a loop that can be read at once."""
        extent, index = loop.const_extent or 1, load.indices[0]
        lanes = BITS // dt.bits(load.buffer.dtype)
        while lanes > 1:
            if extent % lanes == 0:
                try:
                    ramp = _ramp(index, loop, lanes, analyzer)
                except NotVectorizable:
                    return 1
                near = isinstance(ramp, Ramp) and int_value(ramp.stride) == 1
                if not (near and isinstance(ramp, Ramp)):
                    return 1
                if is_aligned(load.buffer, ramp, analyzer):
                    return lanes
            lanes //= 2
        return 1
