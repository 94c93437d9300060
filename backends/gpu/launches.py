"""Launches: what the host does for a lowered program, and what a call of it comes to.

The outermost statements of a program in SPMD form are the host's: sequences, workspaces (Alloc of
global memory), conditions on sizes, and kernels, which are nests of loops over the axes of a grid.

`Launches.steps(sizes)` is what a call comes to; executables remember it by sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from backends.call.signature import dimension
from backends.emit.intrinsic_calls import aligned_operands
from backends.emit.names import c_identifier
from backends.errors import BuildError
from tensorir import (
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    ForKind,
    If,
    Let,
    PrimFunc,
    Ramp,
    Seq,
    Stmt,
    Var,
    int_value,
    loads,
    stmt_exprs,
    touched,
    variables,
    walk,
)
from tensorir import dtype as dt

GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
BLOCK = ("threadIdx.x", "threadIdx.y", "threadIdx.z")

Extents = tuple[Expr, Expr, Expr]
Numbers = tuple[int, int, int]
ONE = Const(1, dt.INDEX)


@dataclass(frozen=True, eq=False)
class Kernel:
    """One function of the device.

    name            its name in the text
    axes            the loops over the axes of the grid, outermost first
    body            the code of one thread
    buffers         what is in global memory that it takes: arguments in call order, workspaces
    written         those of them that it writes
    used            the variables that the code of a thread speaks of
    sizes           the symbolic sizes that it takes
    values          the numbers among the arguments of the program that it takes and are no sizes
    shared_bytes    of the one array in shared memory
    shared_offsets  where the parts of that array begin, in bytes, by the names of their buffers
    """

    name: str
    axes: tuple[For, ...]
    body: Stmt
    buffers: tuple[Buffer, ...]
    written: frozenset[Buffer]
    used: frozenset[Var]
    sizes: tuple[Var, ...]
    values: tuple[Var, ...]
    shared_bytes: int
    shared_offsets: Mapping[str, int]

    def _extents(self, names: tuple[str, str, str]) -> Extents:
        found = {loop.thread: loop.extent for loop in self.axes}
        x, y, z = (found.get(name, ONE) for name in names)
        return x, y, z

    @cached_property
    def grid(self) -> Extents:
        """Blocks along x, y and z."""
        return self._extents(GRID)

    @cached_property
    def block(self) -> Extents:
        """Threads of a block along x, y and z."""
        return self._extents(BLOCK)

    @cached_property
    def threads(self) -> int | None:
        """Threads of a block; None where a size decides."""
        count = 1
        for extent in self.block:
            if not isinstance(extent, Const):
                return None
            count *= int(extent.value)
        return count


@dataclass(frozen=True)
class Take:
    """From here on there is memory for a workspace."""

    buffer: Buffer
    bytes: int


@dataclass(frozen=True)
class Give:
    """What follows does not need the workspace."""

    buffer: Buffer


@dataclass(frozen=True)
class Launch:
    """A kernel runs; `sizes` are those that it takes."""

    kernel: Kernel
    grid: Numbers
    block: Numbers
    sizes: tuple[int, ...]


Step = Take | Give | Launch


@dataclass(frozen=True, eq=False)
class Launches:
    """The host's part of a lowered program. Raises BuildError for one that is not in SPMD form."""

    func: PrimFunc
    kernels: tuple[Kernel, ...]
    _of: Mapping[int, Kernel]

    @classmethod
    def of(cls, func: PrimFunc) -> Launches:
        """The kernels of `func` are named after it and numbered."""
        finder = _Finder(func)
        finder.host(func.body)
        return cls(func, tuple(finder.found.values()), finder.found)

    def kernel_of(self, stmt: Stmt) -> Kernel:
        """The kernel that a statement of the host is."""
        return self._of[id(stmt)]

    @cached_property
    def alignments(self) -> dict[Buffer, int]:
        """How the arguments have to lie that are accessed by vectors: at multiples of these bytes.

        A vector is accessed, and a tensor intrinsic called, where its place in the array is proved
        to be aligned.
        """
        found: dict[Buffer, int] = {}
        for kernel in self.kernels:
            for buffer, index in _accesses(kernel.body):
                if isinstance(index, Ramp) and int_value(index.stride) == 1:
                    size = dt.itemsize(buffer.dtype) * index.lanes
                    found[buffer] = max(size, found.get(buffer, 1))
            for buffer, size in aligned_operands(self.func, kernel.body):
                found[buffer] = max(size, found.get(buffer, 1))
        return {param: found[param] for param in self.func.params if param in found}

    def steps(self, sizes: Mapping[Var, int]) -> tuple[Step, ...]:
        """What is done for these sizes. Nothing is launched that has no threads."""
        return tuple(self._steps(self.func.body, sizes))

    def _steps(self, stmt: Stmt, sizes: Mapping[Var, int]) -> Iterator[Step]:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                yield from self._steps(part, sizes)
        elif isinstance(stmt, Alloc):
            count = 1
            for extent in stmt.buffer.shape:
                count *= dimension(extent, sizes)
            yield Take(stmt.buffer, count * dt.itemsize(stmt.buffer.dtype))
            yield from self._steps(stmt.body, sizes)
            yield Give(stmt.buffer)
        elif isinstance(stmt, If):
            branch = stmt.then if dimension(stmt.cond, sizes) else stmt.orelse
            if branch is not None:
                yield from self._steps(branch, sizes)
        else:
            kernel = self.kernel_of(stmt)
            grid, block = _numbers(kernel.grid, sizes), _numbers(kernel.block, sizes)
            if 0 not in (*grid, *block):
                yield Launch(kernel, grid, block, tuple(sizes[v] for v in kernel.sizes))


class _Finder:
    """Finds the kernels of a function in its host part."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.found: dict[int, Kernel] = {}
        self.workspaces: list[Buffer] = []

    def host(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.host(part)
        elif isinstance(stmt, Alloc) and stmt.buffer.scope == "global":
            self.workspaces.append(stmt.buffer)
            self.host(stmt.body)
        elif isinstance(stmt, If):
            self.host(stmt.then)
            if stmt.orelse is not None:
                self.host(stmt.orelse)
        elif isinstance(stmt, For) and stmt.kind is ForKind.THREAD:
            self.found[id(stmt)] = self.kernel(stmt)
        else:
            raise BuildError(
                f"{self.func.name}: {_first_line(stmt)!r} stands outside of the kernels of the "
                "lowered program"
            )

    def kernel(self, root: For) -> Kernel:
        name = f"{c_identifier(self.func.name)}_{len(self.found)}"
        axes, body = _nest(root)
        names = [loop.thread for loop in axes]
        if len(set(names)) < len(names) or not set(names) <= {*GRID, *BLOCK}:
            raise BuildError(f"{name}: {names} are no axes of one grid; lower the program first")
        uses = _Uses.of(axes, body)
        offsets = root.annotations.get("shared_offsets", {})
        for buffer in uses.shared:
            if buffer.name not in offsets:
                raise BuildError(f"{name}: shared buffer {buffer.name!r} has no place in the arena")
        for var in uses.free - frozenset(self.func.free_vars):
            raise BuildError(f"{name}: {var.name!r} is no number among the arguments and no size")
        return Kernel(
            name,
            axes,
            body,
            tuple(b for b in (*self.func.params, *self.workspaces) if b in uses.buffers),
            frozenset(uses.written),
            frozenset(uses.variables),
            tuple(v for v in self.func.size_vars if v in uses.free),
            tuple(v for v in self.func.value_vars if v in uses.free),
            int(root.annotations.get("shared_bytes", 0)),
            {buffer.name: int(offsets[buffer.name]) for buffer in uses.shared},
        )


@dataclass
class _Uses:
    """What the code of a thread speaks of; `shared` is in the order of the program."""

    buffers: set[Buffer]
    written: set[Buffer]
    shared: list[Buffer]
    variables: set[Var]
    free: set[Var]

    @classmethod
    def of(cls, axes: tuple[For, ...], body: Stmt) -> _Uses:
        uses = cls(set(), set(), [], set(), set())
        bound = {loop.var for loop in axes}
        for stmt in walk(body):
            if isinstance(stmt, (For, Let)):
                bound.add(stmt.var)
            if isinstance(stmt, Alloc) and stmt.buffer.scope == "shared":
                uses.shared.append(stmt.buffer)
            if isinstance(stmt, For) and stmt.kind is ForKind.THREAD:
                raise BuildError(f"loop {stmt.name!r} over {stmt.thread} is inside of a thread")
            for buffer, _, writes in touched(stmt):
                uses.buffers.add(buffer)
                if writes:
                    uses.written.add(buffer)
            for e in stmt_exprs(stmt):
                uses.buffers |= {load.buffer for load in loads(e)}
                uses.variables |= variables(e)
        uses.free = uses.variables - bound
        return uses


def _accesses(body: Stmt) -> Iterator[tuple[Buffer, Expr]]:
    for stmt in walk(body):
        for buffer, indices, _ in touched(stmt):
            yield from ((buffer, index) for index in indices)
        for e in stmt_exprs(stmt):
            for load in loads(e):
                yield from ((load.buffer, index) for index in load.indices)


def _nest(root: For) -> tuple[tuple[For, ...], Stmt]:
    axes: list[For] = []
    stmt: Stmt = root
    while isinstance(stmt, For) and stmt.kind is ForKind.THREAD:
        axes.append(stmt)
        stmt = stmt.body
    return tuple(axes), stmt


def _numbers(extents: Extents, sizes: Mapping[Var, int]) -> Numbers:
    x, y, z = (dimension(extent, sizes) for extent in extents)
    return x, y, z


def _first_line(stmt: Stmt) -> str:
    return repr(stmt).partition("\n")[0]
