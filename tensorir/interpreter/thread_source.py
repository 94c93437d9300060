"""Kernels as plain Python: the code of one thread is a generator that stops where threads wait.

A kernel is a nest of loops over axes around the code of one thread, as lowering for a GPU makes it.
What stands in such programs is run by interpret_threads.Threads. Shared memory remembers, for every
element, which allocation wrote it: what another one left there, or one that lies at the same bytes,
is not read as its own.
"""

from __future__ import annotations

from math import gcd

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.func import PrimFunc
from tensorir.interpreter.python_source import Emitter
from tensorir.interpreter.sanitize import RaceEmitter
from tensorir.passes.gpu.axes import BLOCK_AXES, is_kernel, kernel_roots, nest_of
from tensorir.passes.gpu.merge_shared import BYTES, offsets_of
from tensorir.stmt import Alloc, Block, Exchange, For, ForKind, Stmt, Sync
from tensorir.visit import walk

ALLOCATIONS = 1 << 16
"""More than there are shared buffers in a kernel: how allocations of one buffer are told apart."""


def has_kernels(func: PrimFunc) -> bool:
    """Whether all of `func` is kernels as lowered, to be run thread by thread."""
    if any(isinstance(s, Block) for s in walk(func.body)):
        return False
    found = list(kernel_roots(func.body))
    return bool(found) and all(map(is_kernel, found))


class ThreadEmitter(Emitter):
    """Writes a program of kernels so that it calls `threads`, an instance of Threads."""

    def __init__(self, func: PrimFunc, precise: bool, reserved: frozenset[str]) -> None:
        super().__init__(func, precise, reserved | {"kernel", "slot"})
        within = {s.buffer for s in walk(func.body) if isinstance(s, Alloc)} | {*func.buffers}
        self.inside = [b for b in within if b.scope in ("local", "shared")]
        self.waits = 0
        self.around: list[For] = []
        self.slots: dict[Buffer, tuple[int, int]] = {}  # of shared buffers: first slot, slots each

    def stmt_for(self, stmt: For, depth: int) -> None:
        if is_kernel(stmt):
            self.kernel(stmt, depth)
            return
        self.around.append(stmt)
        super().stmt_for(stmt, depth)
        self.around.pop()

    def call_part(self, part: str, body: Stmt) -> str:
        waits = any(isinstance(s, (Sync, Exchange)) for s in walk(body))
        return f"yield from {part}()" if waits else f"{part}()"

    def kernel(self, stmt: For, depth: int) -> None:
        """The loops over blocks, and in them a generator for each thread."""
        loops, body = nest_of(stmt)
        blocks = [loop for loop in loops if loop.thread in BLOCK_AXES]
        threads = loops[len(blocks) :]
        for loop in blocks:
            self.line(depth, f"for {self.name(loop.var)} in {self.domain(loop)}:  # {loop.thread}")
            depth += 1
        names = [self.name(loop.var) for loop in threads]
        used = self.used_inside(body)
        self.share(stmt, [b for b in used if b.scope == "shared"], depth)
        self.line(depth, f"def kernel({', '.join(names)}):")
        for number, buffer in enumerate(used):
            me = self.name(buffer)
            if buffer.scope == "shared":
                self.line(depth + 1, f"{me}_is = [{number}]")
            else:
                self.line(depth + 1, f"{me} = [None] * ({self.count(buffer)})")
            self.accessors([buffer], depth + 1)
        outside, self.loops = self.loops, 0
        self.stmt(body, depth + 1)
        self.loops = outside
        self.line(depth + 1, "return")
        self.line(depth + 1, "yield")
        extents = [self.expr(loop.extent) for loop in threads]
        shown = [loop.thread for loop in threads]
        places = [self.name(loop.var) for loop in blocks]
        at = f"({', '.join(places)},)" if places else "()"
        self.line(depth, f"threads.run(kernel, [{', '.join(extents)}], {shown!r}, {at})")

    def used_inside(self, body: Stmt) -> list[Buffer]:
        """The buffers that the kernel allocates, and those that are nowhere allocated yet."""
        allocated = {s.buffer for s in walk(body) if isinstance(s, Alloc)}
        found = [b for b in self.inside if b in allocated or b in self.func.buffers]
        return sorted(found, key=lambda b: b.name)

    def share(self, kernel: For, shared: list[Buffer], depth: int) -> None:
        """Memory of a block: the values of each buffer, and whose they are."""
        offsets = offsets_of([kernel])
        sizes = [dt.itemsize(b.dtype) for b in shared]
        grain = gcd(*sizes, *offsets.values()) or 1
        total = "0"
        for buffer in shared:
            self.line(depth, f"{self.name(buffer)} = [None] * ({self.count(buffer)})")
            lanes = dt.lanes(buffer.dtype)
            each = max(1, dt.itemsize(buffer.dtype) // lanes // grain)
            if buffer.name in offsets:
                self.slots[buffer] = offsets[buffer.name] // grain, each
            else:
                self.slots[buffer] = -1, 1
                self.line(
                    depth, f"{self.name(buffer)}_of = [{ALLOCATIONS - 1}] * ({self.count(buffer)})"
                )
        if offsets:
            total = str(kernel.annotations[BYTES] // grain)
            self.line(depth, f"slots = [{ALLOCATIONS - 1}] * {total}")
            self.line(depth, f"threads.shared({dict(self.places())!r})")

    def places(self) -> list[tuple[str, tuple[int, int]]]:
        return [(b.name, place) for b, place in self.slots.items() if place[0] >= 0]

    def marks(self, buffer: Buffer) -> tuple[str, str]:
        """The list that says whose the elements are, and the part of it of the one at `slot`."""
        first, each = self.slots[buffer]
        if first < 0:
            return f"{self.name(buffer)}_of", "slot:slot + 1"
        return "slots", f"{first} + slot * {each}:{first + each} + slot * {each}"

    def fetch(self, buffer: Buffer, depth: int) -> None:
        if buffer not in self.slots:
            super().fetch(buffer, depth)
            return
        me = self.name(buffer)
        marks, part = self.marks(buffer)
        each = self.slots[buffer][1]
        self.line(depth, f"slot = {self.offset(buffer)}")
        self.line(depth, f"value = {me}[slot] if {marks}[{part}] == {me}_is * {each} else None")

    def put(self, buffer: Buffer, value: str, depth: int) -> None:
        if buffer not in self.slots:
            super().put(buffer, value, depth)
            return
        me = self.name(buffer)
        marks, part = self.marks(buffer)
        self.line(depth, f"slot = {self.offset(buffer)}")
        self.line(depth, f"{marks}[{part}] = {me}_is * {self.slots[buffer][1]}")
        self.line(depth, f"{me}[slot] = {value}")

    def stmt_alloc(self, stmt: Alloc, depth: int) -> None:
        if stmt.buffer in self.slots:
            self.line(depth, f"{self.name(stmt.buffer)}_is[0] += {ALLOCATIONS}")
            self.stmt(stmt.body, depth)
        else:
            super().stmt_alloc(stmt, depth)

    def place(self) -> str:
        """Where threads wait: the number of the place, and the iterations of the loops around."""
        self.waits += 1
        values = "".join(f"({f.name!r}, {self.name(f.var)}), " for f in self.around)
        return f"{self.waits}, ({values})"

    def stmt_sync(self, stmt: Sync, depth: int) -> None:
        self.line(depth, f"yield {stmt.scope!r}, {self.place()}")

    def stmt_exchange(self, stmt: Exchange, depth: int) -> None:
        target = f"store_{self.name(stmt.buffer)}"
        given = f"{self.expr(stmt.value)}, {self.expr(stmt.source)}"
        received = f"(yield 'exchange', {self.place()}, {given})"
        indices = self.access(stmt.buffer, stmt.indices)
        self.line(depth, f"{target}({', '.join([*indices, received, repr(self.block)])})")


class ThreadRaceEmitter(ThreadEmitter, RaceEmitter):
    """The same, and every access is told to `races`, but for those of what one thread has alone."""

    def __init__(self, func: PrimFunc, precise: bool, reserved: frozenset[str]) -> None:
        super().__init__(func, precise, reserved)
        shares = any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in walk(func.body))
        self.alone = set() if shares else {b for b in self.inside if b.scope == "local"}

    def check(self, buffer: Buffer, verb: str, depth: int) -> None:
        if buffer in self.alone:
            Emitter.check(self, buffer, verb, depth)
        else:
            super().check(buffer, verb, depth)

    def domain(self, stmt: For) -> str:
        return Emitter.domain(self, stmt) if stmt.thread is not None else super().domain(stmt)
