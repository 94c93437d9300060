"""spmd: the program of all threads becomes the code of one of them.

All loops over an axis become one, outermost. A Sync stands after each loop over threads, and after
what one thread does, never under a condition that differs between threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Const, Expr, Var, all_of, binary
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import (
    BLOCK_AXES,
    NEST,
    THREAD_AXES,
    VIRTUAL_AXES,
    WARP,
    WARP_AXES,
    is_thread_loop,
)
from tensorir.passes.gpu.combine import Combination, Digit, values_of
from tensorir.passes.gpu.thread_reductions import ALL_THREADS, COMBINE, COPIES
from tensorir.passes.rewriting import NOTHING, fresh_names, is_nothing
from tensorir.rewrite.rectangular import largest_value
from tensorir.stmt import For, ForKind, If, Let, Seq, Stmt, Store, Sync, replace, seq
from tensorir.visit import loads, map_children, substitute_stmt, variables, walk

MARKS = (ALL_THREADS, COMBINE, COPIES)
"""Annotations of loops that are gone when all threads have one nest."""

ORDER = (*NEST, *WARP_AXES)
"""Of the conditions of what stands outside of the loops over several axes."""


def spmd(func: PrimFunc) -> PrimFunc:
    """Give every kernel one loop for each of its axes, outermost, and the threads places to wait.

    rewrite:
        for b in thread("blockIdx.x", 4):         for b in thread("blockIdx.x", 4):
            for k in range(8):                        for i in thread("threadIdx.x", 32):
                for i in thread("threadIdx.x", 32):       for k in range(8):
                    S[i] = A[k, i]                ->          S[i] = A[k, i]
                for j in thread("threadIdx.x", 32):           sync("block")
                    D[b, k, j] = S[31 - j]                    D[b, k, i] = S[31 - i]
                                                              sync("block")

    All threads walk through the loops outside of those over threads. What stands outside of the
    loops over an axis is for the first thread of it, under a condition. Threads wait for each other
    after each loop over threads, after each statement outside of one and after loops with such, so
    never under a condition: where it depends on the thread whether there is such a loop, all of
    them walk through it, and its statements have the condition; `barriers` drops what nobody needs.
    Virtual threads become unrolled loops; warps and lanes become threadIdx.x. Requires that
    lower_blocks ran.
    """
    parts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    known = function_analyzer(func)
    new = _New(
        fresh_names(func.body, [v.name for v in func.free_vars]),
        Names([b.name for b in (*func.params, *func.buffers)]),
    )
    body = seq(*[_Kernel(part, known.copy(), new).lowered() for part in parts])
    return replace_fields(func, body=body, buffers=(*func.buffers, *new.buffers))


@dataclass
class _New:
    """Loops and buffers that a function did not have."""

    loop: Callable[[str], str]
    names: Names
    buffers: list[Buffer] = field(default_factory=list)

    def buffer(self, like: Buffer, suffix: str, shape: tuple[int, ...], scope: str) -> Buffer:
        made = Buffer(self.names.unique(f"{like.name}_{suffix}"), shape, like.dtype, scope)
        self.buffers.append(made)
        return made


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: the axes of the loops around, and the conditions that were taken
    off what is around."""

    axes: frozenset[str] = frozenset()
    conditions: tuple[Expr, ...] = ()

    def inside(self, axis: str) -> _Place:
        return _Place(self.axes | {axis}, self.conditions)

    def where(self, condition: Expr) -> _Place:
        return _Place(self.axes, (*self.conditions, condition))


class _Kernel:
    def __init__(self, root: Stmt, analyzer: Analyzer, new: _New) -> None:
        self.root = root
        self.analyzer = analyzer
        self.loops: dict[str, For] = {}
        for axis in ORDER:
            loops = [s for s in walk(root) if isinstance(s, For) and s.thread == axis]
            for loop in loops[1:]:
                if not analyzer.prove(binary("==", loops[0].extent, loop.extent)):
                    raise TensorIRError(
                        f"loops {loops[0].name!r} and {loop.name!r} of one kernel are both bound "
                        f"to {axis}, with extents {loops[0].extent!r} and {loop.extent!r}"
                    )
            if loops:  # passes have made the longer names
                loop = min(loops, key=lambda f: len(f.name))
                notes = {k: v for k, v in loop.annotations.items() if k not in MARKS}
                self.loops[axis] = replace(loop, annotations=notes)
        self.new = new
        self.digits: list[tuple[str, int]] = []  # axes of the linear index of a thread
        self.values = self.of_axes()
        self.written: set[Buffer] = {s.buffer for s in walk(root) if isinstance(s, Store)}
        # What is not the same for all threads of a block.
        own = [value for axis, value in self.values.items() if axis not in BLOCK_AXES]
        self.differing = frozenset[Var]().union(*map(variables, own))
        self.extents = {s.var: s.extent for s in walk(root) if isinstance(s, For)}
        self.extents |= {loop.var: loop.extent for loop in self.loops.values()}

    def of_axes(self) -> dict[str, Expr]:
        """The index of each axis."""
        values: dict[str, Expr] = {axis: loop.var for axis, loop in self.loops.items()}
        for axis in THREAD_AXES:
            if axis in self.loops:
                self.digits.append((axis, self.loops[axis].const_extent or 1))
        if not self.loops.keys() & set(WARP_AXES):
            return values
        warps, lanes = self.loops.pop("warp", None), self.loops.pop("lane", None)
        for loop in filter(None, (warps, lanes)):
            if "threadIdx.x" in self.loops:
                raise TensorIRError(
                    f"loop {self.loops['threadIdx.x'].name!r} is bound to threadIdx.x, and loop "
                    f"{loop.name!r} of the same kernel to {loop.thread}; warps and lanes are "
                    "threadIdx.x"
                )
            if loop.const_extent is None or (loop is lanes and loop.const_extent != WARP):
                raise TensorIRError(
                    f"loop {loop.name!r}, bound to {loop.thread}, has extent {loop.extent!r}; a "
                    f"warp has {WARP} lanes, and a kernel a constant number of warps"
                )
        count = (warps.const_extent if warps else None) or 1
        var = Var(self.new.loop("thread"), "int64")
        extent = Const(count * WARP, "int64")
        self.loops["threadIdx.x"] = For(var, extent, Seq(()), ForKind.THREAD, {}, "threadIdx.x")
        self.analyzer.bind(var, extent)
        values["warp"], values["lane"] = var // WARP, var % WARP
        self.digits[:0] = [("lane", WARP), ("warp", count)]
        return values

    @property
    def waits(self) -> bool:
        """Whether there are several threads in a block."""
        return any(axis in self.loops for axis in THREAD_AXES)

    def lowered(self) -> Stmt:
        """The kernel as a nest of loops over its axes."""
        body = _without_last_sync(self.stmt(self.root, _Place()))
        if is_nothing(body):  # an extent was 0
            return NOTHING
        for axis in reversed(NEST):
            if axis in self.loops:
                body = replace(self.loops[axis], body=body)
        return body

    def stmt(self, stmt: Stmt, place: _Place) -> Stmt:
        """The code of one thread for `stmt`, after which the others can be waited for; it ends
        with a Sync where anything was run."""
        if not self.has_axes(stmt):
            return self.unit(stmt, place)
        if isinstance(stmt, For):
            return self.loop(stmt, place)
        if isinstance(stmt, Seq):
            return self.sequence(stmt, place)
        if isinstance(stmt, If):
            return self.choice(stmt, place)
        if isinstance(stmt, Let):
            if variables(stmt.value) & self.differing or stmt.value.has_loads:
                self.differing |= {stmt.var}
            return replace(stmt, body=self.stmt(stmt.body, place))
        return map_children(stmt, lambda child: self.stmt(child, place))

    def unit(self, stmt: Stmt, place: _Place) -> Stmt:
        """A statement without loops over threads, run by the threads of `place`."""
        outside = [axis for axis in ORDER if axis in self.values and axis not in place.axes]
        first = [binary("==", self.values[axis], 0) for axis in outside]
        condition = all_of(*first, *place.conditions)
        stmt = _virtual(stmt)
        if not (isinstance(condition, Const) and condition.value):
            stmt = If(condition, stmt)
        return seq(stmt, Sync("block")) if self.waits else stmt

    def loop(self, loop: For, place: _Place) -> Stmt:
        axis = loop.thread or ""
        if COMBINE in loop.annotations:
            return self.combined(loop)
        if ALL_THREADS in loop.annotations:
            place = _Place(frozenset(self.values))
            loop = replace(loop, annotations={})
        if axis in self.values:
            index = self.values[axis]
            body = substitute_stmt(loop.body, {loop.var: index} if index is not loop.var else {})
            inside = place.inside(axis)
            return self.stmt(body, inside)
        differs = bool(variables(loop.extent) & self.differing) or loop.extent.has_loads
        extent = loop.extent
        if differs and any(map(is_thread_loop, walk(loop.body))):
            extent = self.largest(loop)
            place = place.where(loop.var < loop.extent)
            self.analyzer.bind(loop.var, extent)
        made = _unrolled(replace(loop, extent=extent, body=self.stmt(loop.body, place)))
        return seq(made, Sync("block")) if self.waits else made

    def combined(self, loop: For) -> Stmt:
        """What threads have, combined: no condition keeps a thread from it."""
        axes: set[str] = set()
        index: dict[Var, Expr] = {}
        body: Stmt = loop
        for _ in range(loop.annotations[COMBINE]):
            assert isinstance(body, For) and body.thread is not None
            axes.add(body.thread)
            index[body.var] = self.values[body.thread]
            body = body.body
        digits: list[Digit] = []
        stride = 1
        for axis, extent in self.digits:
            digits.append(Digit(self.values[axis], extent, stride, axis in axes))
            stride *= extent
        part = Var(self.new.loop("part"), "int64")
        found = Combination(digits, values_of(body, index), part, self.new.buffer)
        return seq(found.stmts(), Sync("block"))

    def largest(self, loop: For) -> Expr:
        """How long a loop is for any thread: all of them walk through all of it."""
        found = None
        if not loop.extent.has_loads:
            found = largest_value(loop.extent, self.extents, self.analyzer)
        if found is None:
            raise TensorIRError(
                f"the extent {loop.extent!r} of loop {loop.name!r} differs between threads, has no "
                "known largest value, and threads wait for each other inside of the loop"
            )
        return found

    def sequence(self, stmt: Seq, place: _Place) -> Stmt:
        """Statements without loops over threads that follow each other are run by one thread."""
        made: list[Stmt] = []
        together: list[Stmt] = []
        for child in stmt.stmts:
            if not self.has_axes(child):
                together.append(child)
                continue
            if together:
                made.append(self.unit(seq(*together), place))
            together = []
            made.append(self.stmt(child, place))
        return seq(*made, self.unit(seq(*together), place) if together else None)

    def choice(self, stmt: If, place: _Place) -> Stmt:
        differs = bool(variables(stmt.cond) & self.differing)
        if stmt.cond.has_loads:
            changed = [e for e in loads(stmt.cond) if e.buffer in self.written]
            if changed:
                raise TensorIRError(
                    f"the condition {stmt.cond!r} around loops over threads reads "
                    f"{changed[0].buffer.name!r}, which the kernel writes"
                )
        if not differs:
            return map_children(stmt, lambda child: self.stmt(child, place))
        parts = [self.stmt(stmt.then, place.where(stmt.cond))]
        if stmt.orelse is not None:
            parts.append(self.stmt(stmt.orelse, place.where(~stmt.cond)))
        return seq(*parts)

    def has_axes(self, stmt: Stmt) -> bool:
        return any(isinstance(s, For) and s.thread in self.values for s in walk(stmt))


def _virtual(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _virtual)
    return _unrolled(stmt) if isinstance(stmt, For) else stmt


def _unrolled(loop: For) -> For:
    """A loop over virtual threads as a loop that one thread runs, written out."""
    if loop.thread not in VIRTUAL_AXES:
        return loop
    return replace(loop, kind=ForKind.UNROLLED, thread=None)


def _without_last_sync(stmt: Stmt) -> Stmt:
    """Nobody waits for anybody at the end of a kernel."""
    if isinstance(stmt, Seq) and stmt.stmts and isinstance(stmt.stmts[-1], Sync):
        return seq(*stmt.stmts[:-1])
    return stmt
