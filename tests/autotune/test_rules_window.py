"""Windows and scans: what is made of them is right, for odd sizes too."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import choose, make_space
from backends import build, resolve
from tensorir import device_of, ops
from tensorir import dtype as dt
from tensorir.ops import Example

POOLS = [
    ("max_pool2d", (1, 3, 17, 35), {"kernel": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", (2, 2, 9, 20), {"kernel": 5, "stride": 1, "padding": 2}),
    ("max_pool2d", (1, 13, 13, 37), {"kernel": 3, "stride": 3, "layout": "NHWC"}),
    ("avg_pool2d", (1, 5, 35, 35), {"kernel": 3, "stride": 1, "padding": 1}),
    ("avg_pool2d", (1, 1, 1, 64), {"kernel": (1, 2), "stride": (1, 4)}),
    ("max_pool1d", (1, 2, 67), {"kernel": 2}),
    ("max_pool3d", (1, 2, 5, 6, 33), {"kernel": 2}),
]
SCANS = [
    ("cumsum", (5, 67), {}), ("cumsum", (67, 5), {"axis": 0}),
    ("cumprod", (3, 17, 33), {"axis": 1}), ("cumsum", (4, 9), {"exclusive": True}),
    ("cumsum", (3, 2, 70), {"reverse": True}),
    ("cumsum", (1, 2), {}), ("cumsum", (300,), {}),
]  # fmt: skip


def checked(name, shape, attrs, dtype, target="c"):
    example = Example([shape], attrs, dtype)
    func = ops.prim_func(name, example)
    (x,) = example.arrays()
    if x.dtype.kind == "f" and x.size > 30:
        x.ravel()[[3, 20, 25]] = np.nan, np.inf, -np.inf
    want = ops.OPERATORS[name].expected(example, [x])[0]
    with np.errstate(invalid="ignore"):
        found = build(default_schedule(func, target), target)(x)
    np.testing.assert_allclose(found, want.astype(found.dtype), rtol=3e-5, atol=1e-6)


TARGETS = ("c", "c -march=haswell", "c -threads=1 -vector_bits=128")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(POOLS)), ids=lambda n: f"{POOLS[n][0]} {n}")
def test_pools(number):
    """Each for two of the three targets."""
    for turn in (number, number + 1):
        checked(*POOLS[number], "float32", TARGETS[turn % len(TARGETS)])


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_pools_of_other_types(dtype):
    checked("max_pool2d", (1, 2, 11, 41), {"kernel": 3, "stride": 2, "padding": 1}, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize(("name", "shape", "attrs"), SCANS)
def test_scans(name, shape, attrs, dtype):
    example = Example([shape], attrs, dtype)
    func = ops.prim_func(name, example)
    x = np.clip(example.arrays()[0], -1, 1)
    found = build(default_schedule(func))(x)
    want = ops.OPERATORS[name].expected(example, [x])[0]
    rtol = 1e-2 if dtype == "float16" else 1e-5
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, want.astype(found.dtype), rtol=rtol, atol=1e-3)


def test_the_rule_is_taken():
    machine = device_of(resolve("c"))
    scan = ops.prim_func("cumsum", Example([(8, 32)]))
    space = make_space(scan, machine, "bitwise")
    assert "step:scan" in next(iter(space.sketches))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "uint8"])
def test_rows_of_pools_go_together_and_fill_vectors(dtype):
    """Integers fill them whatever their size; floats that are computed as wide ones do not."""
    machine = device_of(resolve("c -vector_bits=512 -threads=2 -features=avx512f,avx512vl,fma"))
    example = Example([(1, 8, 70, 128)], {"kernel": 3, "stride": 1, "padding": 1}, dtype)
    values = choose(ops.prim_func("max_pool2d", example), machine, None).sketch.values()
    (tile,) = (value for name, value in values.items() if name.endswith(".tile"))
    lane, lanes, sizes, _ = tile
    assert lanes == {"float16": 16}.get(dtype, 64 // dt.itemsize(dtype))
    assert sizes[lane] % lanes == 0 and prod(sizes) >= 4 * sizes[lane]


def test_sums_of_a_scan_are_the_same_in_any_schedule():
    func = ops.prim_func("cumsum", Example([(7, 50)]))
    x = np.random.default_rng(0).random((7, 50), np.float32)
    found = build(default_schedule(func))(x)
    assert found.tobytes() == np.cumsum(x, axis=1).tobytes()
