"""Counting what the kernels of a program ask for, from the code of one thread.

Transactions and conflicts of banks are found by evaluating the indices of all lanes of some warps:
all of them where they are few, else some that are drawn. What an index takes from memory is drawn
(`autotune/gpu/drawn.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from autotune.gpu.drawn import places_of
from autotune.gpu.integers import Integers, Path
from autotune.gpu.transactions import sectors_of, wavefronts_of
from autotune.gpu.waits import rounds, waits
from autotune.gpu.warps import Launch
from autotune.gpu.work import Room, Work, architecture_of
from autotune.rules.group import size
from tensorir import (
    REINTERPRET,
    WARP,
    Alloc,
    Architecture,
    BinOp,
    Block,
    Buffer,
    Call,
    Exchange,
    Expr,
    For,
    ForKind,
    Gpu,
    If,
    Let,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Seq,
    Stmt,
    Store,
    children,
    dtype,
    int_value,
    loads,
    lower,
    thread_registers,
    walk,
)

FREE = {"fabs", REINTERPRET}
"""Calls that are no instruction: a sign that the next one leaves out, a register as it is."""

COMPARED = {"isnan", "isinf", "isfinite"}
"""Calls that are comparisons."""


def works_of(func: PrimFunc, gpu: Gpu) -> list[Work]:
    """The work of each kernel of a program, in the order of launches; symbolic sizes count as they
    do in other estimates."""
    if any(isinstance(stmt, Block) for stmt in walk(func.body)):
        func = lower(func, gpu.target, without=WIDTHS)
    return [work_of(kernel, gpu) for kernel in kernels_of(func)]


WIDTHS = ("narrow_indices",)
"""Passes that decide how wide indices are: what is counted of them is one operation in any case."""


REGISTERS = ("edges", "compact_registers", "flatten_buffers", "vector_accesses", "hold_reads")
"""Passes that decide of registers alone, or of indices, before it is known where shared memory
lies."""


def rooms_of(func: PrimFunc, gpu: Gpu, registers: bool = True) -> list[Room]:
    """What each kernel of a scheduled program needs to be launched. Lowering goes as far as where
    shared memory lies: waits and arithmetic change nothing of it, nor do iterations that stand by
    themselves. Without `registers` there are as many as a thread may need at the most, which takes
    half as long to tell."""
    without = ("peel_pipelines", *(() if registers else REGISTERS))
    lowered = lower(func, gpu.target, until="merge_shared", without=without)
    kernels = [_Kernel(kernel, gpu) for kernel in kernels_of(lowered)]
    return [kernel.room if registers else kernel.most_room for kernel in kernels]


def work_of(kernel: For, gpu: Gpu) -> Work:
    """The work of one kernel of a lowered program."""
    return _Kernel(kernel, gpu).work()


def kernels_of(func: PrimFunc) -> list[For]:
    """The kernels of a lowered program, in the order of launches: of two for a condition on sizes
    that are not known the usual one."""
    return list(_kernels(func.body))


def _kernels(stmt: Stmt) -> Iterator[For]:
    if isinstance(stmt, For):
        yield stmt
        return
    parts: Sequence[Stmt | None] = stmt.stmts if isinstance(stmt, Seq) else ()
    parts = (stmt.body,) if isinstance(stmt, (Alloc, Let)) else parts
    if isinstance(stmt, If):
        parts = (stmt.orelse if int_value(stmt.cond) == 0 else stmt.then,)
    for part in parts:
        if part is not None:
            yield from _kernels(part)


class _Kernel:
    def __init__(self, kernel: For, gpu: Gpu) -> None:
        self.gpu, self.launch = gpu, Launch(kernel, gpu)
        self.body, self.threads = self.launch.body, self.launch.threads
        self.offsets: Mapping[str, int] = kernel.annotations.get("shared_offsets", {})
        self.shared = int(kernel.annotations.get("shared_bytes", 0))
        self.counts: dict[str, float] = defaultdict(float)
        self.moved: dict[Buffer, float] = defaultdict(float)
        self.made = set[Expr]()
        self.integers = Integers()

    @cached_property
    def room(self) -> Room:
        """What it needs to be launched."""
        return self._room(thread_registers(self.body))

    @property
    def most_room(self) -> Room:
        """The same before it is known what a thread keeps of what it reads: registers are not
        compact, and any load of a nest that is written out may be held."""
        nests = [s for s in walk(self.body) if isinstance(s, For) and s.kind is ForKind.UNROLLED]
        held = max(map(_may_hold, nests), default=0)
        return self._room(thread_registers(self.body, copies=True) + held)

    def _room(self, registers: int) -> Room:
        return Room(self.threads, min(Architecture.registers_per_thread, registers), self.shared)

    @property
    def while_memory_answers(self) -> float:
        """Operations that a thread does while a load waits: warps of a block take turns on a part
        of a multiprocessor."""
        arch = architecture_of(self.gpu)
        return arch.latency / max(1.0, self.threads / (WARP * arch.partitions))

    def work(self) -> Work:
        self.walk(self.body, ())
        held = {b: prod(map(size, b.shape)) * dtype.itemsize(b.dtype) for b in self.moved}
        return Work(
            blocks=self.launch.blocks,
            threads=self.threads,
            registers=self.room.registers,
            shared=self.shared,
            bytes=sum(min(held[b], moved) for b, moved in self.moved.items()),
            rounds=rounds(self.body, self.while_memory_answers),
            waits=waits(self.body),
            **self.counts,
        )

    def walk(self, stmt: Stmt, path: Path) -> None:
        """Count what a statement does."""
        if isinstance(stmt, Alloc):
            self.walk(stmt.body, path)
        elif isinstance(stmt, For):
            self.walk(stmt.body, (*path, stmt))
        elif isinstance(stmt, Let):
            self.expression(stmt.value, path)
            self.walk(stmt.body, (*path, stmt))
        elif isinstance(stmt, If):
            self.expression(stmt.cond, path)
            self.walk(stmt.then, (*path, stmt.cond))
            if stmt.orelse is not None:
                self.walk(stmt.orelse, (*path, Not(stmt.cond)))
        elif isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.walk(part, path)
        elif isinstance(stmt, Store):
            self.made.clear()
            self.expression(stmt.value, path)
            self.access(stmt.buffer, stmt.indices, path, write=True)
        elif isinstance(stmt, Exchange):
            self.expression(stmt.value, path)
            self.add("other", path)

    def expression(self, e: Expr, path: Path) -> None:
        """Count operations on values, and loads where they are done, of several alike in one
        statement the first."""
        if e in self.made:
            return
        self.made.add(e)
        if isinstance(e, Load):
            self.access(e.buffer, e.indices, path, write=False)
            for index in e.indices:
                for load in loads(index):
                    self.access(load.buffer, load.indices, path, write=False)
            return
        if self.integers.has(e):
            for part, where in self.integers.instructions(e, path):
                self.add(_pipe(part), where, dtype.lanes(part.dtype))
            return
        if isinstance(e, Select):
            self.expression(e.cond, path)
            self.add("other", path)
            self.expression(e.a, (*path, e.cond))
            self.expression(e.b, (*path, Not(e.cond)))
            return
        if isinstance(e, BinOp) or isinstance(e, Call) and e.name not in FREE:
            self.add(_pipe(e), path, dtype.lanes(e.dtype))
        product = _product_added(e)
        for part in children(e):
            for done in children(part) if part is product else (part,):
                self.expression(done, path)

    def add(self, what: str, path: Path, times: float = 1.0) -> None:
        self.counts[what] += times * self.launch.at(path).warps

    def access(self, buffer: Buffer, indices: Sequence[Expr], path: Path, write: bool) -> None:
        """Count one load or store; those of registers are free."""
        if buffer.scope not in ("global", "shared") or len(indices) > 1:
            return
        index = indices[0] if indices else None
        if isinstance(index, Ramp) and int_value(index.stride) != 1:  # elements one by one
            for n in range(index.lanes):
                self.access(buffer, (index.base + index.stride * n,), path, write)
            return
        known, running, each, requests = self.launch.at(path)
        lanes = index.lanes if isinstance(index, Ramp) else 1
        item = dtype.itemsize(buffer.dtype)
        found = np.zeros((), np.int64)
        if index is not None:
            high = max(1, prod(map(size, buffer.shape)))
            found = places_of(index, known, high, running.shape)
        address = np.broadcast_to(found * item, running.shape)
        if buffer.scope == "shared":
            offset = self.offsets.get(buffer.name, 0)
            most, parts = wavefronts_of(address + offset, running, item * lanes, self.gpu)
            self.counts["touches"] += requests
            self.counts["wavefronts"] += each * most
            self.counts["free"] += each * parts
            return
        sectors, least = sectors_of(address, running, item * lanes, self.gpu)
        self.counts["requests"] += requests
        self.counts["sectors"] += each * sectors
        self.counts["least"] += each * least
        self.moved[buffer] += each * sectors * self.gpu.sector_bytes


def _may_hold(nest: For) -> int:
    """Registers for what a nest reads of global memory into registers, at the most."""
    stores = [s for s in walk(nest) if isinstance(s, Store) and s.buffer.scope == "local"]
    found = {load for s in stores for load in loads(s.value) if load.buffer.scope == "global"}
    return sum(Gpu.most_held * -(-dtype.itemsize(load.dtype) // 4) for load in found)


def _product_added(e: Expr) -> Expr | None:
    """The product of floats that a sum or difference is of: both are one instruction."""
    if not isinstance(e, BinOp) or e.op not in ("+", "-") or not dtype.is_float(e.dtype):
        return None
    return next((x for x in (e.a, e.b) if isinstance(x, BinOp) and x.op == "*"), None)


def _pipe(e: Expr) -> str:
    """The unit that an operation is done by."""
    kind = dtype.element(e.dtype)
    op = e.op if isinstance(e, BinOp) else ""
    if isinstance(e, Call):
        return "other" if e.name in COMPARED else "special"
    if op == "/":
        return "special"
    if kind == "float64":
        return "float64"
    return "float32" if dtype.is_float(kind) and op in ("+", "-", "*") else "other"
