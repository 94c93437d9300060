"""Windows and scans: what their rules make is right, for odd sizes too."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import choose, make_space
from backends import build, resolve
from tensorir import device_of, ops
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


def test_the_rules_are_taken():
    machine = device_of(resolve("c"))
    pool = ops.prim_func("max_pool2d", Example([(1, 4, 32, 32)], {"kernel": 2}))
    assert "max_pool2d:window" in next(iter(make_space(pool, machine).sketches))
    scan = ops.prim_func("cumsum", Example([(8, 32)]))
    space = make_space(scan, machine, "bitwise")
    assert "step:scan" in next(iter(space.sketches))


@pytest.mark.parametrize(
    "shape, attrs, tile",
    [
        ((1, 8, 35, 35), {"kernel": 3, "stride": 1, "padding": 1}, (4, 2)),
        ((1, 8, 20, 20), {"kernel": 5, "stride": 1, "padding": 2}, (2, 2)),
        ((1, 8, 112, 112), {"kernel": 3, "stride": 2, "padding": 1}, (1, 4)),
        ((1, 56, 56, 128), {"kernel": 2, "stride": 2, "layout": "NHWC"}, (1, 4)),
        ((1, 8, 14, 14), {"kernel": 2, "stride": 2}, (1, 1)),
    ],
)
def test_rows_go_together_where_windows_share_what_they_read(shape, attrs, tile):
    """Else longer rows are worth more, as far as there are results to fill them."""
    machine = device_of(resolve("c -vector_bits=512 -threads=2 -features=avx512f,avx512vl,fma"))
    pool = ops.prim_func("max_pool2d", Example([shape], attrs))
    values = choose(pool, machine, None).sketch.values()
    assert (values["max_pool2d.rows"], values["max_pool2d.vectors"]) == tile


def test_sums_of_a_scan_are_the_same_in_any_schedule():
    func = ops.prim_func("cumsum", Example([(7, 50)]))
    x = np.random.default_rng(0).random((7, 50), np.float32)
    found = build(default_schedule(func))(x)
    assert found.tobytes() == np.cumsum(x, axis=1).tobytes()
