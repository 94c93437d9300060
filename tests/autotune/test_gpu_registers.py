"""Registers of a thread are an estimate, which the compiler's log must bear out."""

from __future__ import annotations

import pytest

from autotune import default_schedule
from autotune.gpu.count import kernels_of, rooms_of
from backends import source_text
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from benchmarks.gpus.rows import ROWS
from tensorir import (
    Architecture,
    Gpu,
    PrimFunc,
    Target,
    ample_registers,
    lower,
    ops,
    sum_bytes,
    te,
    thread_registers,
)

TARGET = Target.parse("cuda -arch=sm_90a")
APART = 1.5
"""Times that one of the two may be the other: for arrays of sums, which live as long as the
loop around them; others may be read from memory one after the other."""

MANY = 4 * 32
"""Bytes of sums from which on these are most of the registers."""


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_the_compiler_needs_as_many_as_estimated(row):
    sch = default_schedule(row.func(), TARGET)
    used = read_resources(compile_cubin(source_text(sch.func, TARGET), "sm_90a").log)
    for n, kernel in enumerate(kernels_of(lower(sch.func, Gpu(TARGET).target))):
        registers, estimate = used[f"program_{n}"].registers, thread_registers(kernel)
        assert not used[f"program_{n}"].spills and not used[f"program_{n}"].stack
        assert registers <= APART * estimate
        if sum_bytes(kernel) >= MANY:
            assert estimate <= APART * registers and registers <= APART * ample_registers(kernel)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_no_thread_keeps_more_than_it_may(row):
    """What is told before registers are compact, and before it is known which reads are held."""
    gpu = Gpu(TARGET)
    func = default_schedule(row.func(), TARGET).func
    for most, room in zip(rooms_of(func, gpu, registers=False), rooms_of(func, gpu), strict=True):
        assert (most.threads, most.shared) == (room.threads, room.shared)
        assert most.registers >= room.registers


def product(m: int, n: int, k: int, kind: str, term=lambda a, b: a * b) -> PrimFunc:
    a, b, r = te.placeholder((m, k), kind), te.placeholder((n, k), kind), te.reduce_axis(k)
    wide = {"float16": "float32", "int8": "int32"}.get(kind, kind)
    made = lambda i, j: te.sum(term(te.cast(a[i, r], wide), te.cast(b[j, r], wide)), r)  # noqa: E731
    return te.create_prim_func([a, b, te.compute((m, n), made, name="made")])


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("sizes", "kind"),
    [((8191, 17, 513), "float32"), ((1132, 12, 109), "float32"), ((2332, 54, 4322), "float32"),
     ((200, 19, 42), "float16"), ((57, 1672, 2646), "float16"), ((2095, 4969, 13), "float64"),
     ((1110, 70, 1000), "int8"), ((3027, 2572, 24), "int8")],
)  # fmt: skip
def test_what_is_under_way_is_in_registers(sizes, kind, apart):
    """Steps of as many terms as no power of two: arrays of a thread had places for what others
    fetch, up to 180,000 bytes, which are in memory."""
    func = product(*sizes, kind, (lambda a, b: (a - b) * (a - b)) if apart else lambda a, b: a * b)
    lowered = lower(default_schedule(func, TARGET).func, TARGET)
    assert max(map(thread_registers, kernels_of(lowered))) <= Architecture.registers_per_thread


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_asked_for_together_has_room_whatever_its_type(kind):
    """Elements of 8 bytes take two registers each while their copies are under way."""
    x, w = te.placeholder((8, 57, 65, 167), kind), te.placeholder((65, 57, 3, 3), kind)
    func = te.create_prim_func([x, w, ops.conv2d(x, w, stride=2, padding=1)])
    sch = default_schedule(func, TARGET)
    used = read_resources(compile_cubin(source_text(sch.func, TARGET), "sm_90a").log)
    assert used and not any(kernel.spills or kernel.stack for kernel in used.values())
