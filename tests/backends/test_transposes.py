"""Transposed tiles in C: shuffles of the vectors that the machine has."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import te


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [(37, 21, (16, 16)), (9, 40, (8, 4)), (8, 96, (8, 32))],  # the last is one piece of memory
)
def test_transposed_tiles(rows, columns, tile, dtype, cache):
    a = te.placeholder((columns, rows), dtype, name="A")
    b = te.compute((rows, columns), lambda i, j: a[j, i], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    i0, i1, j0, j1 = sch.tile(*sch.get_loops("B"), *tile)
    sch.unroll(i1)
    sch.vectorize(j1)
    kernel = build(sch, target="c", cache=cache)
    assert "__builtin_shufflevector" in kernel.source
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((columns, rows)) * 100).astype(dtype)
    np.testing.assert_array_equal(kernel(x), x.T)
