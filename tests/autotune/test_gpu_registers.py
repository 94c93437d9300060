"""Registers of a thread are an estimate, which the compiler's log must bear out."""

from __future__ import annotations

import pytest

from autotune import default_schedule
from autotune.gpu.count import kernels_of, rooms_of
from backends import source_text
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from benchmarks.gpus.rows import ROWS
from tensorir import Gpu, Target, ample_registers, lower, ops, sum_bytes, te, thread_registers

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
        assert not used[f"program_{n}"].spills
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


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_asked_for_together_has_room_whatever_its_type(kind):
    """Elements of 8 bytes take two registers each while their copies are under way."""
    x, w = te.placeholder((8, 57, 65, 167), kind), te.placeholder((65, 57, 3, 3), kind)
    func = te.create_prim_func([x, w, ops.conv2d(x, w, stride=2, padding=1)])
    sch = default_schedule(func, TARGET)
    used = read_resources(compile_cubin(source_text(sch.func, TARGET), "sm_90a").log)
    assert used and not any(kernel.spills for kernel in used.values())
