"""Register tiles: what fits, and that the compiler finds registers for it."""

from __future__ import annotations

import platform
import re
import shutil

import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from autotune.rules.register_tile import register_tile
from backends import build, resolve
from backends.build import backend_of
from tensorir import Target, device_of, te


@pytest.mark.parametrize("registers", [8, 15, 16, 32])
def test_sums_and_operands_fit(registers):
    for rows in range(1, 20):
        for vectors in range(1, 40):
            tall, wide = register_tile(rows, vectors, registers)
            assert tall >= 1 and 1 <= wide <= vectors
            operands = wide if tall > 1 else 0  # of one row, they are read where they are used
            assert tall * wide + operands + 1 <= registers


@pytest.mark.parametrize(
    ("rows", "vectors", "registers", "tile"),
    [
        (512, 64, 16, (4, 3)),
        (512, 2, 16, (6, 2)),
        (512, 1, 16, (14, 1)),
        (1, 25, 16, (1, 6)),  # one row alone: many columns, or a chain of sums decides
        (2, 125, 16, (2, 4)),
        (512, 64, 15, (6, 2)),  # without fused multiply-add
        (512, 64, 32, (6, 4)),
    ],
)
def test_tiles(rows, vectors, registers, tile):
    assert register_tile(rows, vectors, registers) == tile


def matmul(n, dtype):
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "AB")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


@pytest.mark.parametrize("dtype, lanes", [("float32", 16), ("float64", 8)])
def test_the_default_counts_vectors_of_the_result(dtype, lanes):
    target = Target(vector_bits=512, threads=1, features=("avx512f", "fma"))
    space = make_space(matmul(256, dtype), device_of(target))
    candidate = default_candidate(space)
    values = dict(zip([c.name for c in space.sketches[candidate.sketch].choices], candidate.values))
    _, own, (rows, columns), _ = values["C.tile"]
    assert own == lanes
    assert (rows, columns) == (6, 4 * lanes)


@pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="reads gcc's assembly"
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_sum_is_spilled_with_sixteen_registers(dtype):
    target = resolve("c -march=x86-64-v3 -threads=1")
    kernel = build(default_schedule(matmul(96, dtype), target), target)
    text = backend_of("c").assembly(kernel.source, target, "matmul")
    blocks = re.split(r"^\.L\w+:$|^\s+j\w+\s.*$", text, flags=re.MULTILINE)
    steps = [b for b in blocks if b.count("vfmadd") >= 12]
    assert steps and not any("rsp" in step for step in steps)
