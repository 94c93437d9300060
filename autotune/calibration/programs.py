"""Small programs, each of which takes as long as one thing that a processor does.

Each is an expression and a schedule like those of any operator, so that what is measured is what
kernels do. Arrays are as large as the cache that they are to come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import mul

from schedule import Schedule
from tensorir import Cpu, PrimFunc, te

FLOAT_BYTES = 4

CHAIN_CYCLES = 2
"""An exclusive or and an addition of integers, one after the other: a cycle each everywhere."""

SUMS = 8
"""Vectors that are summed side by side: more than additions under way."""

LEAST_MEMORY, MOST_MEMORY = 64 << 20, 256 << 20
"""Bytes of what is read from memory; between them four times the last cache."""


@dataclass(frozen=True)
class Probe:
    """A program to time: `count` of what it measures happen in a call, of one thread."""

    schedule: Schedule
    count: float

    @property
    def func(self) -> PrimFunc:
        return self.schedule.func


def probes(cpu: Cpu) -> Iterator[tuple[str, Probe]]:
    """All programs by name."""
    l1, l2, l3 = cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes
    beyond = min(max(4 * l3, LEAST_MEMORY), MOST_MEMORY)
    shared = max(2 * l2, min(4 * l2, l3 // 2 // cpu.threads))
    yield "clock", clock()
    yield "units", register_tile(cpu)
    yield "loads", two_loads(cpu)
    yield "latency", one_sum(cpu)
    yield "l1 lines", lines(cpu, l1 // 2, 1)
    yield "l2 lines", lines(cpu, l2 // 2, 1)
    yield "l3 lines", lines(cpu, shared, cpu.threads)
    yield "memory lines", lines(cpu, beyond // cpu.threads, cpu.threads)
    yield "memory lines, one thread", lines(cpu, beyond, 1)
    yield "parallel", tasks(cpu)
    yield "packed", panels(cpu, turned=False)
    yield "packed, turned", panels(cpu, turned=True)
    yield "turned", squares(cpu)


def clock(steps: int = 2048) -> Probe:
    """Steps of a known number of cycles, each of which needs the one before it.

    What goes from one to the next is held in a register: some processors have what was just written
    to memory at once, for others it takes five cycles.
    """
    x = te.placeholder((steps,), "int32", name="x")
    step = te.comm_reducer(lambda state, x: (state ^ x) + x, lambda dtype: 0, name="step")
    k = te.reduce_axis(steps, name="k")
    c = te.compute((1,), lambda i: step(x[k], axis=k), name="c")
    sch = Schedule(te.create_prim_func([x, c], name="integer_chain"))
    sch.cache_write("c", 0, "local")
    return Probe(sch, steps * CHAIN_CYCLES)


def register_tile(cpu: Cpu, terms: int = 64, times: int = 8) -> Probe:
    """Multiply-adds of vectors, of sums that fill the registers, of operands in the first cache."""
    lanes = cpu.lanes()
    vectors = 4 if cpu.registers >= 32 else 2
    rows = (cpu.registers - 1 - vectors) // vectors
    a = te.placeholder((terms, rows), name="a")
    b = te.placeholder((terms, vectors * lanes), name="b")
    k = te.reduce_axis(terms, name="k")
    shape = (times, rows, vectors * lanes)
    c = te.compute(shape, lambda r, i, j: te.sum(a[k, i] * b[k, j], axis=k), name="c")
    sch = Schedule(te.create_prim_func([a, b, c], name="register_tile"))
    repeat, i, j, k_ = sch.get_loops("c")
    _held(sch, [repeat], [k_], [i], j, lanes)
    return Probe(sch, times * terms * rows * vectors)


def _held(
    sch: Schedule, outer: list[str], sums: list[str], rows: list[str], column: str, lanes: int
) -> None:
    """Sums in registers: `sums` around unrolled rows of vectors; results are written at the end."""
    column_o, column_i = sch.split(column, [None, lanes])
    sch.reorder(*outer, *sums, *rows, column_o, column_i)
    writer = sch.cache_write("c", 0, "local")
    sch.reverse_compute_at(writer, outer[-1])
    for loop in (*rows, column_o):
        sch.unroll(loop)
    sch.vectorize(column_i)
    *whole, last = sch.get_loops(writer)
    outside, inside = sch.split(last, [None, lanes])
    for loop in (*whole[len(outer) :], outside):
        sch.unroll(loop)
    sch.vectorize(inside)


def two_loads(cpu: Cpu, times: int = 16) -> Probe:
    """Loads of vectors from the first cache, two for each multiply-add."""
    return _sums(cpu, "two_loads", cpu.l1_bytes // 8 * 3, times, two=True, count=2.0)


def one_sum(cpu: Cpu) -> Probe:
    """Multiply-adds to one vector of sums, each of which waits for the one before it."""
    return _sums(cpu, "one_sum", cpu.l1_bytes // 4, 1, two=True, sums=1)


def lines(cpu: Cpu, size: int, threads: int) -> Probe:
    """Reading `size` bytes in order, again and again, each of the threads its own; in lines."""
    times = max(1, cpu.l2_bytes // size) if threads == 1 else 1
    probe = _sums(cpu, "lines", size, times, threads=threads)
    return Probe(probe.schedule, probe.count * cpu.lanes() * FLOAT_BYTES / cpu.line_bytes)


def _sums(
    cpu: Cpu,
    name: str,
    size: int,
    times: int,
    two: bool = False,
    sums: int = SUMS,
    count: float = 1.0,
    threads: int = 1,
) -> Probe:
    """Sums of an array of `size` bytes, or of the products of two, `times` times by each thread.

    The count is that of vectors added up, times `count`.
    """
    lanes, width = cpu.lanes(), sums * cpu.lanes()
    terms = max(1, size // FLOAT_BYTES // width)
    arrays = [te.placeholder((threads, terms, width), name=x) for x in ("x", "y")[: 1 + two]]
    k = te.reduce_axis(terms, name="k")
    c = te.compute(
        (threads, times, width),
        lambda t, r, j: te.sum(reduce(mul, [x[t, k, j] for x in arrays]), axis=k),
        name="c",
    )
    sch = Schedule(te.create_prim_func([*arrays, c], name=name))
    thread, repeat, j, k_ = sch.get_loops("c")
    _held(sch, [thread, repeat], [k_], [], j, lanes)
    if threads > 1:
        sch.parallel(thread)
    return Probe(sch, count * times * terms * sums)


def tasks(cpu: Cpu) -> Probe:
    """One vector for each thread to add up: hardly any time, but for starting the threads."""
    lanes = cpu.lanes()
    x = te.placeholder((cpu.threads, lanes), name="x")
    y = te.compute((cpu.threads, lanes), lambda t, j: x[t, j] + 1.0, name="y")
    sch = Schedule(te.create_prim_func([x, y], name="tasks"))
    thread, j = sch.get_loops("y")
    sch.vectorize(j)
    sch.parallel(thread)
    return Probe(sch, 1)


def panels(cpu: Cpu, turned: bool) -> Probe:
    """Elements of a matrix in the second cache, copied to panels of four vectors: lines from behind
    it are counted apart. Its rows are a power of two apart, as those of most matrices are."""
    width = 4 * cpu.lanes()
    rows = columns = max(width, 1 << ((cpu.l2_bytes // 8 // FLOAT_BYTES).bit_length() - 1) // 2)
    x = te.placeholder((rows, columns), name="x")
    y = te.compute(
        (columns // width, rows, width),
        lambda p, k, j: x[p * width + j, k] if turned else x[k, p * width + j],
        name="y",
    )
    sch = Schedule(te.create_prim_func([x, y], name="panels"))
    _move(sch, cpu.lanes(), turned)
    return Probe(sch, rows * columns)


def squares(cpu: Cpu, times: int = 4) -> Probe:
    """Vectors of a matrix of an eighth of the first cache, transposed."""
    lanes = cpu.lanes()
    side = max(1, int((cpu.l1_bytes // 8 // FLOAT_BYTES) ** 0.5) // lanes) * lanes
    x = te.placeholder((side, side), name="x")
    y = te.compute((times, side, side), lambda r, i, j: x[j, i], name="y")
    sch = Schedule(te.create_prim_func([x, y], name="squares"))
    _move(sch, lanes, turned=True)
    return Probe(sch, times * side * side / lanes)


def _move(sch: Schedule, lanes: int, turned: bool) -> None:
    """Copy in vectors; squares of them are transposed in registers."""
    *outer, row, column = sch.get_loops("y")
    column_o, column_i = sch.split(column, [None, lanes])
    if turned:
        row_o, row_i = sch.split(row, [None, lanes])
        sch.reorder(*outer, column_o, row_o, row_i, column_i)
        sch.unroll(row_i)
    sch.vectorize(column_i)
