"""The emitter of one kernel for GPUs: the code of a thread, in a language of the C family.

It prints and decides nothing but the spelling. Each line remembers the statement that it is of.

Signed integers that are data are computed as unsigned ones, which wrap. So a report of the emulator
can name the statement of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

from backends.emit.bounds import Bounds
from backends.emit.cstyle import CStyleEmitter
from backends.emit.extern_calls import Known, extern_call
from backends.emit.rounding import FOUND
from backends.errors import BuildError
from backends.gpu.addresses import Place, Places, is_written_out
from backends.gpu.device_text import device_text
from backends.gpu.exchanges import Pattern, pattern_of
from backends.gpu.launches import Kernel
from backends.gpu.tensorized import tensorized_loop
from backends.gpu.vectors import GpuVectorEmitter
from tensorir import (
    FOUND_AGAIN,
    TENSORIZE,
    WRITTEN_OUT,
    Alloc,
    Buffer,
    Exchange,
    Extern,
    ExternFunc,
    For,
    If,
    Part,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Sync,
    Target,
    TensorIntrin,
)
from tensorir import dtype as dt


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a line of the text comes from: the kernel, the loops around and the statement."""

    kernel: str
    loops: tuple[str, ...]
    stmt: Stmt | None

    def __str__(self) -> str:
        where = f"kernel {self.kernel!r}"
        if self.loops:
            where += f", loops {', '.join(self.loops)}"
        if self.stmt is None:
            return where
        return f"{where}: {repr(self.stmt).partition(chr(10))[0]}"


class Line(str):
    """A line of the text that knows its origin."""

    origin: Origin

    def __new__(cls, text: str, origin: Origin) -> Line:
        line = super().__new__(cls, text)
        line.origin = origin
        return line


@dataclass
class Shared:
    """What the kernels of one text have in common: helpers, extern functions and intrinsics.

    trial  an intrinsic or extern function that is being checked, and not yet known
    """

    declarations: dict[str, str] = field(default_factory=dict)
    externs: Known = field(default_factory=dict)
    intrinsics: dict[str, str] = field(default_factory=dict)
    trial: TensorIntrin | ExternFunc | None = None


class GpuEmitter(GpuVectorEmitter):
    """Prints one kernel; `shared` collects what it needs."""

    kernel_head: ClassVar[str] = ""
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Words of the language that are no names, beside those of C."""

    rounds_each: ClassVar[str] = FOUND
    """Says in a text that sums and products are rounded each."""

    def __init__(self, func: PrimFunc, target: Target, kernel: Kernel, shared: Shared) -> None:
        super().__init__(func, target)
        self.kernel = kernel
        self.declarations, self.externs = shared.declarations, shared.externs
        self.intrinsics = shared.intrinsics
        if func.attrs.get(FOUND_AGAIN):
            self.declarations.setdefault(FOUND_AGAIN, self.rounds_each)
        trial = shared.trial
        self.trial = trial if isinstance(trial, TensorIntrin) else None
        self.extern_trial = trial if isinstance(trial, ExternFunc) else None
        self.bounds = Bounds(func.size_ranges, (dt.INDEX, "int32"), func.value_vars)
        taken = (*self.externs.values(), *self.intrinsics.values())
        self.names.reserve((*self.reserved, *taken))
        self.names.fresh(kernel.name)
        self.loops: list[For] = []
        self.nest: Places | None = None
        self.count = 0
        self.placed: dict[Store, Store] = {}
        self.at: Stmt | None = None

    # What the language says

    def parameter(self, buffer: Buffer) -> str:
        """A buffer among the parameters of the kernel."""
        raise NotImplementedError

    def thread_index(self, axis: str) -> str:
        """The index of this thread along an axis such as threadIdx.x."""
        raise NotImplementedError

    def barrier(self, scope: str) -> str:
        """The call by which threads wait for each other."""
        raise NotImplementedError

    def exchanged(self, pattern: Pattern, value: str) -> str:
        """The call that gives the value of another lane."""
        raise NotImplementedError

    def memory_part(self, buffer: Buffer, index: str, count: str, access: str) -> str:
        """The address of elements that a function reads, writes, or updates: reads and writes."""
        raise NotImplementedError

    def declaration(self, buffer: Buffer, count: int) -> str:
        """The line that declares an array of a thread, or a part of the shared one."""
        raise NotImplementedError

    def address(self, place: Place) -> str:
        """The line that names the address of a place."""
        raise NotImplementedError

    def arena(self, size: int) -> str:
        """The line that declares the one array in shared memory, of `size` bytes."""
        raise NotImplementedError

    # The kernel

    def text(self) -> list[str]:
        """The lines of the kernel."""
        self.depth = 0
        parameters = [self.parameter(b) for b in self.kernel.buffers]
        numbers = (*self.kernel.sizes, *self.kernel.values)
        parameters += [f"{self.stored_type(v.dtype)} {self.names.of(v)}" for v in numbers]
        with self.block(f"{self.head()}({', '.join(parameters)})"):
            if self.kernel.shared_bytes:
                self.line(self.arena(self.kernel.shared_bytes))
            self.axis(0)
        return self.lines

    def head(self) -> str:
        """What stands before the parameters."""
        raise NotImplementedError

    def axis(self, number: int) -> None:
        """The indices of the thread, and then its code."""
        if number == len(self.kernel.axes):
            self.stmt(self.kernel.body)
            return
        loop = self.kernel.axes[number]
        if loop.var in self.kernel.used:
            kind, index = self.type_name(loop.var.dtype), self.thread_index(loop.thread or "")
            self.line(f"const {kind} {self.names.of(loop.var)} = {index};")
        with self.inside(loop), self.bounds.loop(loop.var, loop.extent):
            self.axis(number + 1)

    # Lines and where they come from

    def line(self, text: str) -> None:
        super().line(text)
        names = tuple(loop.name for loop in self.loops)
        self.lines[-1] = Line(self.lines[-1], Origin(self.kernel.name, names, self.at))

    @contextmanager
    def inside(self, loop: For) -> Iterator[None]:
        self.loops.append(loop)
        yield
        self.loops.pop()

    def stmt(self, s: Stmt) -> None:
        before = self.at
        if not isinstance(s, Seq):
            self.at = s
        super().stmt(s)
        self.at = before

    def stmt_run(self, run: Sequence[Store]) -> None:
        if self.nest is not None:
            placed = {self.nest.store(s): s for s in run}
            self.placed, run = placed, list(placed)
        super().stmt_run(run)

    def store(self, s: Store) -> None:
        before, self.at = self.at, self.placed.get(s, s)
        super().store(s)
        self.at = before

    def stmt_for(self, s: For) -> None:
        if TENSORIZE in s.annotations and tensorized_loop(self, s):
            return
        with self.written_out(s), self.inside(s):
            super().stmt_for(s)

    @contextmanager
    def written_out(self, s: For) -> Iterator[None]:
        """The names of addresses before a nest that is written out, in a block of their own."""
        if self.nest is not None or not is_written_out(s):
            yield
            return
        nest = self.nest = Places(s, self.count)
        self.count += len(nest.found)
        with self.block("") if nest.found else nullcontext():
            for place in nest.found.values():
                self.line(self.address(place))
            yield
        self.nest = None

    def prefix_unroll(self, s: For) -> None:
        self.line(f"#pragma unroll {s.annotations.get(WRITTEN_OUT, '')}".rstrip())

    def stmt_if(self, s: If) -> None:
        if dt.lanes(s.cond.dtype) > 1:
            raise BuildError(f"{self.kernel.name}: the condition {s.cond!r} is a vector")
        super().stmt_if(s)

    # Memory

    def stmt_alloc(self, s: Alloc) -> None:
        shape = s.buffer.const_shape
        if shape is None or s.buffer.scope not in ("local", "shared"):
            raise BuildError(
                f"{self.kernel.name}: buffer {s.buffer!r} of scope {s.buffer.scope!r} cannot be "
                "in a kernel, where memory is local or shared and of constant size"
            )
        (count,) = shape
        self.line(self.declaration(s.buffer, max(count, 1)))
        self.stmt(s.body)

    # Extern functions

    def stmt_extern(self, s: Extern) -> None:
        extern_call(self, s)

    def part_address(self, part: Part, written: bool) -> str:
        return f"&{self.element(part.buffer, part.indices)}"

    def extern_text(self, name: str, text: str) -> str:
        return self.spelled(device_text(name, text, self.target.kind))

    # Threads

    def stmt_sync(self, s: Sync) -> None:
        self.line(f"{self.barrier(s.scope)};")

    def stmt_exchange(self, s: Exchange) -> None:
        pattern = pattern_of(s.source, self.kernel)
        value = self.exchanged(pattern, self.expr(s.value))
        self.line(f"{self.element(s.buffer, s.indices)} = {value};")

    statements: ClassVar = {
        **CStyleEmitter.statements,
        Sync: lambda self, s: self.stmt_sync(s),
        Exchange: lambda self, s: self.stmt_exchange(s),
    }
