"""Counting what the kernels of a program ask for, from the code of one thread.

Transactions and conflicts of banks are found by evaluating the indices of all lanes of some warps:
all of them where they are few, else some that are drawn. What an index takes from memory counts as
anywhere in the buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.gpu.integers import Integers, Path
from autotune.gpu.lanes import Values, values_of
from autotune.gpu.work import Room, Work
from autotune.rules.group import size
from tensorir import (
    WRITTEN_OUT,
    Alloc,
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
    Sync,
    Var,
    children,
    dtype,
    held_bytes,
    int_value,
    loads,
    lower,
    stmt_exprs,
    variables,
    walk,
)

SAMPLES = 256
"""Warps, at steps of their loops, that are looked at for one access."""

BASE_REGISTERS = 24
"""Of a thread: indices, addresses and the like."""

UNROLLED = 4
"""Iterations of a loop without waits whose loads compilers let run ahead of their uses."""

def works_of(func: PrimFunc, gpu: Gpu) -> list[Work]:
    """The work of each kernel of a program, in the order of launches; symbolic sizes count as they
    do in other estimates."""
    if any(isinstance(stmt, Block) for stmt in walk(func.body)):
        func = lower(func, gpu.target)
    return [work_of(kernel, gpu) for kernel in kernels_of(func)]


def rooms_of(func: PrimFunc, gpu: Gpu) -> list[Room]:
    """What each kernel of a scheduled program needs to be launched. Lowering goes as far as where
    shared memory lies: waits and arithmetic change nothing of it, nor do iterations that stand by
    themselves."""
    lowered = lower(func, gpu.target, until="merge_shared", without=("peel_pipelines",))
    return [_Kernel(kernel, gpu).room for kernel in kernels_of(lowered)]


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


@dataclass(frozen=True)
class _Warps:
    """Some warps at steps of loops: the values of variables, which lanes run, and how many such
    warps each of them stands for."""

    known: Mapping[Var, Values]
    running: Values
    each: float


class _Kernel:
    def __init__(self, kernel: For, gpu: Gpu) -> None:
        self.gpu, self.axes = gpu, list[For]()
        body: Stmt = kernel
        while isinstance(body, For) and body.kind is ForKind.THREAD:
            self.axes.append(body)
            body = body.body
        self.body = body
        self.offsets: Mapping[str, int] = kernel.annotations.get("shared_offsets", {})
        self.shared = int(kernel.annotations.get("shared_bytes", 0))
        grid = [axis for axis in self.axes if (axis.thread or "").startswith("blockIdx")]
        self.grid = [(axis.var, size(axis.extent)) for axis in grid]
        inner = sorted((a.thread or "", a.var, size(a.extent)) for a in self.axes if a not in grid)
        self.inner = [(var, extent) for _, var, extent in inner]
        self.threads = prod(extent for _, extent in self.inner)
        held = held_bytes(self.body) // 4
        self.room = Room(self.threads, min(255, BASE_REGISTERS + held), self.shared)
        self.counts: dict[str, float] = defaultdict(float)
        self.moved: dict[Buffer, float] = defaultdict(float)
        self.seen: dict[tuple[For, ...], _Warps] = {}
        self.read = set[Load]()
        self.integers = Integers()

    def work(self) -> Work:
        self.walk(self.body, ())
        held = {b: prod(map(size, b.shape)) * dtype.itemsize(b.dtype) for b in self.moved}
        return Work(
            blocks=prod(extent for _, extent in self.grid),
            threads=self.threads,
            registers=self.room.registers,
            shared=self.shared,
            bytes=sum(min(held[b], moved) for b, moved in self.moved.items()),
            rounds=self.rounds(self.body),
            waits=_waits(self.body),
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
            self.read.clear()
            self.expression(stmt.value, path)
            self.access(stmt.buffer, stmt.indices, path, write=True)
        elif isinstance(stmt, Exchange):
            self.expression(stmt.value, path)
            self.add("other", path)

    def expression(self, e: Expr, path: Path) -> None:
        """Count operations on values, and loads where they are done, of several alike in one
        statement the first."""
        if isinstance(e, Load):
            if e in self.read:
                return
            self.read.add(e)
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
        if isinstance(e, (BinOp, Call)):
            self.add(_pipe(e), path, dtype.lanes(e.dtype))
        for part in children(e):
            self.expression(part, path)

    def add(self, what: str, path: Path, times: float = 1.0) -> None:
        warps, _, running = self.at(path)
        self.counts[what] += times * warps.each * float(running.any(axis=1).sum())

    def access(self, buffer: Buffer, indices: Sequence[Expr], path: Path, write: bool) -> None:
        """Count one load or store; those of registers are free."""
        if buffer.scope not in ("global", "shared") or len(indices) > 1:
            return
        warps, known, running = self.at(path)
        index = indices[0] if indices else None
        lanes = index.lanes if isinstance(index, Ramp) else 1
        item = dtype.itemsize(buffer.dtype)
        found = np.zeros((), np.int64) if index is None else values_of(index, known)
        if found is None:
            high = max(1, prod(map(size, buffer.shape)))
            found = np.random.default_rng(0).integers(0, high, running.shape)
        address = np.broadcast_to(found * item, running.shape)
        warp_requests = warps.each * float(running.any(axis=1).sum())
        if buffer.scope == "shared":
            offset = self.offsets.get(buffer.name, 0)
            most, parts = _wavefronts(address + offset, running, item * lanes, self.gpu)
            self.counts["wavefronts"] += warps.each * most
            self.counts["free"] += warps.each * parts
            return
        sectors, least = _sectors(address, running, item * lanes, self.gpu)
        self.counts["requests"] += warp_requests
        self.counts["sectors"] += warps.each * sectors
        self.counts["least"] += warps.each * least
        self.moved[buffer] += warps.each * sectors * self.gpu.sector_bytes

    def at(self, path: Path) -> tuple[_Warps, Mapping[Var, Values], Values]:
        """Warps at steps of the loops of `path`, the values there, and the lanes that run."""
        loops = tuple(part for part in path if isinstance(part, For))
        warps = self.seen.get(loops)
        if warps is None:
            warps = self.seen[loops] = self.warps(loops)
        known, running = dict(warps.known), warps.running
        for part in path:
            if isinstance(part, Let):
                value = values_of(part.value, known)
                if value is not None:
                    known[part.var] = value
            elif not isinstance(part, For):
                holds = values_of(part, known)
                if holds is not None:
                    running = running & np.broadcast_to(holds, running.shape).astype(bool)
        return warps, known, running

    def warps(self, loops: tuple[For, ...]) -> _Warps:
        """All warps at all steps of some loops, or as many as are looked at."""
        count = -(-self.threads // self.gpu.warp)
        outer = [*self.grid, (None, count), *((loop.var, size(loop.extent)) for loop in loops)]
        blocks = prod(extent for _, extent in self.grid)
        total = prod(extent for _, extent in outer)
        chosen = _drawn(blocks, [extent for _, extent in outer[len(self.grid) :]])[:, None]
        known: dict[Var, Values] = {}
        rest, warp = chosen, chosen
        for var, extent in reversed(outer):
            place = rest % max(1, extent)
            rest = rest // max(1, extent)
            if var is None:
                warp = place
            else:
                known[var] = place
        thread = warp * self.gpu.warp + np.arange(self.gpu.warp)
        left = thread
        for var, extent in self.inner:  # x is the fastest
            known[var] = left % extent
            left = left // extent
        free = {v for axis in loops for v in variables(axis.extent)} | _sizes(self.body, known)
        known.update({var: np.asarray(size(var)) for var in free if var not in known})
        return _Warps(known, thread < self.threads, total / max(1, len(chosen)))

    def rounds(self, stmt: Stmt) -> float:
        """How often a thread waits for global memory: loads without a wait of threads or a loop
        between them are under way together."""
        if isinstance(stmt, Seq):
            found, most = 0.0, 0.0
            for part in stmt.stmts:
                if isinstance(part, Sync):
                    found, most = found + most, 0.0
                most = max(most, self.rounds(part))
            return found + most
        if isinstance(stmt, For):
            inner, count = self.rounds(stmt.body), size(stmt.extent)
            if stmt.kind is ForKind.UNROLLED:
                return inner * (count // stmt.annotations.get(WRITTEN_OUT, count))
            waits = any(isinstance(s, (Sync, Exchange)) for s in walk(stmt.body))
            return inner * (count if waits else -(-count // UNROLLED))
        if isinstance(stmt, If):
            return max(self.rounds(s) for s in (stmt.then, stmt.orelse) if s is not None)
        if isinstance(stmt, (Alloc, Let)):
            return self.rounds(stmt.body)
        read = (n for e in stmt_exprs(stmt) for n in loads(e))
        return float(any(n.buffer.scope == "global" for n in read))


def _drawn(blocks: int, inside: Sequence[int]) -> Values:
    """Numbers of warps at steps of loops, which have such extents inside of a block: all of them,
    or some, among which all those inside of a block are alike often, or where they are many the
    values of each extent (McKay, Beckman and Conover, Technometrics 1979)."""
    own = prod(inside)
    if blocks * own <= SAMPLES:
        return np.arange(blocks * own, dtype=np.int64)
    rng = np.random.default_rng(0)
    count = SAMPLES // own * own or SAMPLES

    def spread(most: int) -> Values:
        values = (np.arange(count) + rng.random(count)) * (most / count)
        return rng.permutation(values.astype(np.int64))

    place = spread(blocks)
    if own <= SAMPLES:
        return place * own + np.arange(count) % own
    for extent in inside:
        place = place * extent + spread(extent)
    return place


def _sizes(stmt: Stmt, known: Mapping[Var, Values]) -> set[Var]:
    """Variables of a kernel that none of its statements gives a value: sizes."""
    own = {s.var for s in walk(stmt) if isinstance(s, (For, Let))}
    used = {v for s in walk(stmt) for e in stmt_exprs(s) for v in variables(e)}
    return {v for v in used - own - set(known) if dtype.is_int(v.dtype)}


def _waits(stmt: Stmt) -> float:
    """How often a block waits for its threads; a shuffle is half of that."""
    if isinstance(stmt, Sync):
        return 1.0 if stmt.scope == "block" else 0.5
    if isinstance(stmt, Exchange):
        return 0.5
    if isinstance(stmt, For):
        return size(stmt.extent) * _waits(stmt.body)
    if isinstance(stmt, Seq):
        return sum(map(_waits, stmt.stmts))
    if isinstance(stmt, If):
        return _waits(stmt.then) + (_waits(stmt.orelse) if stmt.orelse is not None else 0.0)
    return _waits(stmt.body) if isinstance(stmt, (Alloc, Let)) else 0.0


def _pipe(e: Expr) -> str:
    """The unit that an operation is done by."""
    kind = dtype.element(e.dtype)
    op = e.op if isinstance(e, BinOp) else ""
    if isinstance(e, Call) or op == "/":
        return "special"
    if kind == "float64":
        return "float64"
    return "float32" if dtype.is_float(kind) and op in ("+", "-", "*") else "other"


def _distinct(rows: Values) -> Values:
    """Where the sorted rows have numbers for the first time; -1 is none."""
    first = np.ones(rows.shape, bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return first & (rows >= 0)


def _sectors(address: Values, running: Values, bytes_each: int, gpu: Gpu) -> tuple[float, float]:
    """Sectors that the running lanes touch, and how many their bytes would fill."""
    places = np.sort(np.where(running, address, -1), axis=1)
    count = _distinct(places).sum(axis=1)
    ends = [address, address + bytes_each - 1] if bytes_each > 1 else [address]
    found = [np.where(running, end // gpu.sector_bytes, -1) for end in ends]
    sectors = _distinct(np.sort(np.concatenate(found, axis=1), axis=1)).sum()
    return float(sectors), float((-(-count * bytes_each // gpu.sector_bytes)).sum())


def _wavefronts(address: Values, running: Values, bytes_each: int, gpu: Gpu) -> tuple[float, float]:
    """Turns of the banks of shared memory, and how many there would be without conflicts: all lanes
    at once, or halves or quarters where each has 8 or 16 bytes."""
    parts = max(1, bytes_each // gpu.bank_bytes)
    words = np.where(running, address // gpu.bank_bytes, -1)
    if parts > 1:
        each = words[:, :, None] + np.arange(parts) * (words[:, :, None] >= 0)
        words = each.reshape(-1, gpu.warp)
    words = np.sort(words, axis=1)
    first = _distinct(words)
    turns = np.zeros((len(words), gpu.banks), np.int64)
    row, column = np.nonzero(first)
    np.add.at(turns, (row, words[row, column] % gpu.banks), 1)
    most = turns.max(axis=1)
    return float(most.sum()), float((most > 0).sum())
