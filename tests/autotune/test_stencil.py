"""Defaults of stages that read neighbours: rows of registers where they share enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from autotune.rules.stencil import rows_of_registers
from backends import build, resolve
from benchmarks.peers.invented import INVENTED_ROWS
from benchmarks.peers.programs_invented import invented
from schedule import Schedule
from tensorir import Costs, Cpu, ForKind, Target, device_of, interpret, reference, te, usual_costs

TARGET = "c -vector_bits=512 -threads=2"
CPU = Cpu(Target(vector_bits=256, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))
ROWS = {row.sizes["op"]: row for row in INVENTED_ROWS}


def stencil(shape, offsets, dtype="float32", then=None):
    """A weighted sum of neighbours, and perhaps of neighbours of that along the first axis."""
    reach = [max(o) for o in zip(*offsets)]
    grown = (shape[0] + (then or 0), *shape[1:])
    a = te.placeholder([s + r for s, r in zip(grown, reach)], dtype, name="A")

    def element(*i):
        parts = [a[tuple(p + d for p, d in zip(i, o))] * (n + 1) for n, o in enumerate(offsets)]
        return sum(parts[1:], parts[0])

    out = te.compute(grown, element, name="S")
    if then is not None:
        rows = lambda i, *j: sum((out[(i + d, *j)] for d in range(1, then + 1)), out[(i, *j)])  # noqa: E731
        out = te.compute(shape, rows, name="T")
    return te.create_prim_func([a, out], name="stencil")


NINE = [(y, x) for y in range(3) for x in range(3)]
CROSS = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
ALONG = [(0, d) for d in range(5)]


def unrolled(sch, block):
    loops = [sch.state.loop(loop) for loop in sch.get_loops(block)]
    return [loop.const_extent for loop in loops if loop.kind is ForKind.UNROLLED]


@pytest.mark.parametrize("op", ["heat2d", "heat3d", "nine_taps", "blur"])
def test_stencils_are_rows_of_registers(op):
    """Of the first axis that shares, whose pieces of memory are the longest."""
    sch = default_schedule(invented(ROWS[op].sizes), TARGET, costs=Costs())
    assert [str(name) for name in sch.get_blocks()] == ["out"], "a blur's rows are computed once"
    assert unrolled(sch, "out") == [4]
    assert sch.numerics == "bitwise"


@pytest.mark.parametrize("offsets", [CROSS, NINE], ids=["cross", "nine"])
def test_rows_are_stored_in_turns_where_that_costs_little(offsets):
    """Where vectors of results reach into second lines, as those of callers do and those of
    intermediates do not. What is computed once for several rows is worth it anyway."""
    split = usual_costs(("avx512f", "avx512fp16", "fma"))
    assert split.piece > usual_costs(("avx512f", "fma")).piece == 0.0
    target = resolve("c -vector_bits=512 -threads=1")
    found = {}
    for costs in (Costs(), split):
        cpu = Cpu(target, costs)
        sch = Schedule(stencil((2048, 2048), offsets))
        found[costs.piece > 0] = rows_of_registers(sch, sch.state.block("S"), cpu)
        inner = Schedule(stencil((2048, 2048), offsets, then=4))
        assert rows_of_registers(inner, inner.state.block("S"), cpu) is not None
    assert found[False] is not None and found[True] is None
    sch = default_schedule(invented(ROWS["blur"].sizes), TARGET, costs=split)
    assert unrolled(sch, "out") == [4]


@pytest.mark.parametrize("op", ["edit", "lifting", "bilateral", "viterbi", "min_plus", "cosine"])
def test_others_are_what_they_were(op):
    """Rows that share nothing, or where arithmetic takes the time."""
    sch = Schedule(invented(ROWS[op].sizes))
    device = device_of(resolve(TARGET))
    for name in sch.get_blocks():
        assert rows_of_registers(sch, sch.state.block(name), device) is None


@pytest.mark.parametrize(
    ("offsets", "shape", "rows"),
    [
        (NINE, (300, 200), True),
        (CROSS, (300, 200), True),
        (ALONG, (300, 200), False),
        (NINE, (1, 90000), False),
        (NINE, (6, 10000), False),
        (NINE, (32, 96), False),
        ([(0, 0), (1, 1)], (300, 200), False),
        ([(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 1)], (40, 30, 33), True),
        ([(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 0, 1)], (40, 30, 33), True),
    ],
    ids=str,
)
def test_what_rows_share_decides(offsets, shape, rows):
    sch = Schedule(stencil(shape, offsets))
    found = rows_of_registers(sch, sch.state.block("S"), CPU)
    assert (found is not None) == rows
    if found is not None:
        shares = [len({o[axis] for o in offsets}) > 1 for axis in range(len(shape) - 1)]
        assert shares[found.at]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_short_rows_go_together_where_a_cache_keeps_them(dtype):
    """From memory, pieces so short are not asked for ahead, and rows take longer together."""

    def found(rows, columns, l3):
        sch = Schedule(stencil((rows, columns), NINE, dtype))
        cpu = Cpu(replace(CPU.target, l3=l3))
        return rows_of_registers(sch, sch.state.block("S"), cpu)

    columns = 1000 // np.dtype(dtype).itemsize
    assert found(4000, columns, 32 << 20) is not None
    assert found(4000, columns, 16 << 20) is None, "it may come from memory"
    assert found(4000, 4 * columns, 16 << 20) is not None, "pieces are long"


SHAPES = [((183, 197), "float32"), ((1030, 33), "float64"), ((61, 600), "uint8"),
          ((9, 61, 67), "int32"), ((5, 3), "float32"), ((4, 1), "float16")]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
@pytest.mark.parametrize("then", [None, 2])
def test_defaults_are_right(shape, dtype, then):
    """Odd sizes, and others than float32; stages one after the other. Large ones are compiled."""
    func = stencil(shape, [(0,) * (len(shape) - 2) + o for o in NINE], dtype, then)
    cpu = Cpu(replace(CPU.target, l3=1 << 12))  # so that what fits in no cache is inlined
    space = make_space(func, cpu)
    sch = space.build(default_candidate(space))
    (source,) = func.inputs
    a = np.random.default_rng(0).integers(0, 3, source.const_shape).astype(source.dtype)
    (expected,) = reference(func, a)
    if expected.size > 10_000:
        np.testing.assert_array_equal(build(sch, "c -vector_bits=256")(a), expected)
    else:
        np.testing.assert_array_equal(interpret(sch.func, a)[0], expected)


@pytest.mark.parametrize("names", [("i", "j"), ("v", "where"), ("order", "tile")])
def test_names_decide_nothing(names):
    """Loops and variables may be called as choices are."""
    a = te.placeholder((302, 202), name="A")

    def element(y, x):
        return sum((a[y + d, x + e] for d, e in NINE[1:]), a[y, x])

    scope = {"element": element}
    fcompute = eval(f"lambda {', '.join(names)}: element({', '.join(names)})", scope)
    func = te.create_prim_func([a, te.compute((300, 200), fcompute, name="S")])
    space = make_space(func, CPU)
    sch = space.build(default_candidate(space))
    assert unrolled(sch, "S") == [4]
    assert sum(loop.kind is ForKind.VECTORIZED for loop in loops_of(sch)) == 1


def loops_of(sch):
    return [sch.state.loop(name) for name in sch.get_loops("S")]


def test_what_is_inlined_is_shared_by_rows_and_in_no_cache():
    def blocks(shape, offsets, then, l3=1 << 12):
        target = f"{TARGET} -l3={l3}"
        sch = default_schedule(stencil(shape, offsets, then=then), target)
        return [str(block) for block in sch.get_blocks()]

    assert blocks((300, 200), NINE, 3) == blocks((300, 200), ALONG, 4) == ["T"]
    assert blocks((300, 200), NINE, 3, 1 << 25) == ["S", "T"], "it is read from the cache"
    assert blocks((6, 20000), ALONG, 4) == ["S", "T"], "there are too few rows"
    long = [(y, x) for y in range(5) for x in range(5)]
    assert blocks((300, 200), long, 4) == ["S", "T"], "it is too long"
