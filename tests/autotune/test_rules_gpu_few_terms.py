"""Sums of few terms on GPUs, which threads have alone: they are in registers, and stored once."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.gpu.count import works_of
from backends import build
from benchmarks.gpus.counts import EMULATOR, default
from benchmarks.gpus.rows import MEMORY
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))


def program(make, shape: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, make(x)], name="program")


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("make", [lambda x: ops.sum(x, 0), lambda x: ops.max(x, (0, 1))])
def test_sums_are_stored_once(make, kind):
    (work,) = works_of(default(program(make, (7, 3, 1 << 17), kind))[0].func, DEVICE)
    assert work.sectors * Gpu.sector_bytes <= MEMORY.most * work.bytes


def test_a_sum_in_a_register_is_right(cache):
    func = program(lambda x: ops.sum(x, (0, 2)), (3, 37, 5))
    x = np.random.default_rng(0).integers(-9, 9, (3, 37, 5)).astype("float32")
    sch, rules, _ = default(func)
    assert rules == ["elementwise"]
    found = build(sch, f"{EMULATOR},races,uninitialised", cache=cache)(x)
    np.testing.assert_array_equal(found, reference(func, x)[0])
