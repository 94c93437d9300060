"""The estimate for GPUs: what it counts is what the emulator counts, and what binds is as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.gpu.integers import Integers
from autotune.gpu.work import Work, cycles
from schedule import Schedule
from schedule.library import gpu
from tensorir import (
    ARCHITECTURES,
    WRITTEN_OUT,
    Buffer,
    For,
    ForKind,
    Gpu,
    PrimFunc,
    Store,
    Target,
    Var,
    const,
    ops,
    te,
)

H200 = Gpu(Target.parse("cuda-emulator -arch=sm_90a"))


def program(make, *shapes: tuple[int, ...], dtype: str = "float32") -> PrimFunc:
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def counted(sch: Schedule) -> tuple[Counter[str], list[Work]]:
    """Transactions by space, of a run on the emulator, and the estimate."""
    shapes = [[d.value for d in p.shape] for p in sch.func.inputs]
    given = [np.ones(s, p.dtype) for s, p in zip(shapes, sch.func.inputs)]
    found: Counter[str] = Counter()
    for count in sch.sanitize(*given, checks="counts", target=str(H200.target)).counts:
        found[count.space] += count.transactions
        found[f"{count.space} least"] += count.least
        found[f"{count.space} requests"] += count.instructions
    return found, works_of(sch.func, H200)


def row_sums(by: str) -> Schedule:
    sch = Schedule(program(lambda x: ops.sum(x, (1,), name="S"), (19, 77)))
    gpu.rows(sch, "S", by=by, warps=2)
    return sch


def product() -> Schedule:
    sch = Schedule(program(lambda a, b: ops.matmul(a, b, name="S"), (35, 20), (20, 37)))
    gpu.matmul(sch, "S", warps=(2, 1), registers=(4, 4))
    return sch


def turned(dtype: str) -> Schedule:
    sch = Schedule(program(lambda x: ops.transpose(x, (1, 0), name="S"), (45, 50), dtype=dtype))
    gpu.transpose(sch, "S")
    return sch


def strided() -> Schedule:
    """Lanes that are apart in memory, and those of a part of a warp."""
    x = te.placeholder((40, 50), name="x")
    func = te.create_prim_func([x, te.compute((50, 11), lambda i, j: x[j * 3, i], name="S")])
    sch = Schedule(func)
    gpu.elementwise(sch, "S", threads=64)
    return sch


def read_twice() -> Schedule:
    sch = Schedule(program(lambda x: ops.gelu(x, name="S"), (37, 41)))
    gpu.elementwise(sch, "S", threads=64)
    return sch


def spread(kind: str, rows: int) -> Schedule:
    """One value, or one for each row, beside vectors of others."""
    sch = Schedule(
        program(lambda x, y: ops.add(x, y, name="S"), (rows, 64), (rows, 1), dtype=kind)
    )
    gpu.elementwise(sch, "S", threads=64)
    return sch


def shifted() -> Schedule:
    """Rows that begin within a sector, in pieces that begin with one."""
    sch = Schedule(program(lambda x: ops.max_pool2d(x, 3, 2, name="S"), (2, 3, 37, 77)))
    gpu.windows(sch, "S", (1, 1, 2, 64), (1, 1, 5, 1), sectors=True)
    return sch


CASES = {
    "shifted": shifted,
    "rows by warps": lambda: row_sums("warp"),
    "rows by blocks": lambda: row_sums("block"),
    "product": product,
    "turned": lambda: turned("float32"),
    "turned bytes": lambda: turned("int8"),
    "strided": strided,
    "gelu": read_twice,
    "one value": lambda: spread("float32", 1),
    "one value of each row": lambda: spread("float32", 7),
    "one byte": lambda: spread("int8", 1),
    "one half of each row": lambda: spread("float16", 5),
}


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_emulator(name):
    found, works = counted(CASES[name]())
    for what, given in (
        ("global", [w.sectors for w in works]),
        ("global least", [w.least for w in works]),
        ("global requests", [w.requests for w in works]),
        ("shared", [w.wavefronts for w in works]),
        ("shared requests", [w.touches for w in works]),
        ("shared least", [w.free for w in works]),
    ):
        assert sum(given) == pytest.approx(found[what], rel=0.03), what


def gathered(count: tuple[int, ...], place, lowest: int = 0) -> PrimFunc:
    """64 rows of 300 elements, read where `place` of the indices and the axes says."""
    x, at = te.placeholder((64, 300), name="x"), te.placeholder(count, "int32", name="at")

    def read(i, j):
        row, column = place(at, i, j)
        return x[te.clip(row, 0, 63), te.clip(column, lowest, 299)]

    return te.create_prim_func([x, at, te.compute((64, 100), read, name="S")], name="gathered")


GATHERED = {
    "rows": gathered((64,), lambda at, i, j: (at[i], j)),
    "columns": gathered((100,), lambda at, i, j: (i, at[j])),
    "elements": gathered((64, 100), lambda at, i, j: (i, at[i, j])),
    "few columns": gathered((100,), lambda at, i, j: (i, at[j]), lowest=290),
    "one row": gathered((1,), lambda at, i, j: (at[0], j)),
    "rows of rows": gathered((64,), lambda at, i, j: (at[te.clip(at[i], 0, 63)], j)),
    "backwards": gathered((64, 100), lambda at, i, j: (63 - at[i, 0], 299 - at[i, j])),
}


@pytest.mark.parametrize("name", GATHERED)
def test_lanes_that_read_one_number_go_to_one_place(name):
    func, rng = GATHERED[name], np.random.default_rng(0)
    sch = Schedule(func)
    gpu.elementwise(sch, "S", threads=64)
    x, at = (p.const_shape for p in func.inputs)
    given = rng.random(x, "float32"), rng.integers(0, 64 if "row" in name else 300, at, "int32")
    found = sch.sanitize(*given, checks="counts", target=str(H200.target)).counts
    moved = sum(count.transactions for count in found if count.space == "global")
    assert sum(w.sectors for w in works_of(sch.func, H200)) == pytest.approx(moved, rel=0.05)


def test_integers_are_computed_once_where_they_are_known():
    t, i, k = (Var(name) for name in "tik")
    body = Store(Buffer("B", (1,), "float32"), (const(0),), const(0.0))
    rows, steps = For(k, const(5), body), For(i, const(4), body, ForKind.UNROLLED)
    begin, integers = (t * 113 + k * 3) % 8, Integers()

    def places(e, *path):
        assert integers.has(e)
        return [where for _, where in integers.instructions(e, path)]

    assert places(t * 113, rows, steps) == [()]
    assert places(begin, rows, steps) == 3 * [(rows,)], "the rest of it was met"
    assert places(begin, rows, steps) == []
    assert places(i * 8 + 3, rows, steps) == [], "a number in each copy of the body"
    inside = (begin + 2 <= i * 8 + t % 4) & (i < 3)
    assert sorted(places(inside, rows, steps)) == sorted([(), (rows, steps)], key=len)
    partly = For(i, const(4), body, ForKind.UNROLLED, annotations={WRITTEN_OUT: 2})
    assert places(i * 8, partly) == [(partly,)], "a variable"


MEMORY = Work(blocks=1e5, threads=256, bytes=4e9, sectors=1.25e8, least=1.25e8, requests=4e6)


def test_what_binds():
    """Bytes, functions, loads one after the other; a kernel that fits nowhere takes for ever."""
    assert MEMORY.limit(H200) == "memory"
    assert replace(MEMORY, special=1e9).limit(H200) == "special"
    assert replace(MEMORY, rounds=1e4).limit(H200) == "latency"
    assert replace(MEMORY, sectors=8 * MEMORY.sectors).limit(H200) == "l2"
    assert cycles([replace(MEMORY, shared=1 << 20)], H200) == float("inf")
    assert replace(MEMORY, blocks=0).cycles_by_limit(H200) == {"latency": 0.0}


@pytest.mark.parametrize(("threads", "blocks", "idle"), [
    (128, 132, 1), (64, 132, 2), (32, 132, 4), (32, 264, 2), (32, 528, 1), (32, 1e5, 1),
])  # fmt: skip
def test_parts_of_a_multiprocessor_without_a_warp_are_idle(threads, blocks, idle):
    """Each computes for warps of its own: one block of a warp leaves three of four without any."""
    work = Work(blocks=blocks, threads=threads, float32=1e9, special=1e7)
    found = work.cycles_by_limit(H200)
    even = replace(work, threads=128).cycles_by_limit(H200)
    for unit in ("issue", "float32", "special"):
        assert found[unit] == pytest.approx(idle * even[unit]), unit


def test_a_copy_takes_as_long_as_its_bytes():
    """4 GB at 4.8 TB/s, and a launch."""
    seconds = cycles([MEMORY], H200) / (ARCHITECTURES["sm_90a"].card.clock * 1e9)
    assert 4e9 / 4.8e12 < seconds < 1.01 * 4e9 / 4.8e12 + 3e-6


@pytest.mark.parametrize("arch", [*ARCHITECTURES, None])
def test_every_gpu_has_an_estimate(arch):
    device = Gpu(Target.parse("opencl" if arch is None else f"cuda -arch={arch}"))
    more, less = (cycles([replace(MEMORY, bytes=n)], device) for n in (8e9, 4e9))
    assert more > less > 0
    assert 0 < MEMORY.occupancy(device) <= 1 and MEMORY.at_once(device) >= 1


def test_bank_conflicts_and_registers_are_seen():
    """A tile without padding has conflicts; sums of a thread are registers."""
    a = te.placeholder((64, 64), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((64, 64), lambda i, j: a[j, i], name="B")]))
    gpu.transpose(sch, "B")
    (work,) = works_of(sch.func, H200)
    assert work.wavefronts == work.free > 0
    (work,) = works_of(replace(sch.func, attrs={}), H200)
    assert work.wavefronts > 4 * work.free
    (work,) = works_of(product().func, H200)
    assert work.registers >= 24 + 16


def test_signs_left_out_are_no_functions():
    """A distance by absolute differences takes as many functions as a product: none."""
    x, y = (te.placeholder((64, 32), name=name) for name in "xy")
    k = te.reduce_axis(32, name="k")
    terms = {
        "products": lambda i, j: te.sum(x[i, k] * y[j, k], axis=k),
        "differences": lambda i, j: te.sum(te.abs(x[i, k] - y[j, k]), axis=k),
    }
    for name, term in terms.items():
        func = te.create_prim_func([x, y, te.compute((64, 64), term, name="o")])
        (work,) = works_of(Schedule(func).func, H200)
        assert work.special == 0, name
    (work,) = works_of(Schedule(program(ops.exp, (64, 64))).func, H200)
    assert work.special > 0
