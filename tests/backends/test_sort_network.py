"""Sorting values of any type and length: networks on vectors below 1024, partitions above."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from tensorir import dtype as dt
from tensorir import ops, te

LENGTHS = (1, 31, 32, 33, 65, 1000, 1024, 1025, 2500)


def rows(dtype: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    if dtype == "bool":
        return rng.random((4, n)) > 0.5
    if dt.is_int(dtype):
        low, high = dt.int_limits(dtype)
        found = rng.integers(low, high, (4, n), dt.numpy_dtype(dtype), endpoint=True)
        found[0] %= 5
        return found
    found = rng.standard_normal((4, n)).astype(dtype)
    found[0] = np.round(found[0])
    found[1, ::7], found[2, ::5], found[2, ::9] = np.inf, -np.inf, -0.0
    found[3, n // 2 :: 11] = np.nan
    found[3, n // 3 :: 13] = -np.float32(np.nan)
    return found


HERE = ("float32", "float64", "float16", "int8", "uint16", "int32", "uint32", "int64", "uint64",
        "bool")  # fmt: skip
HASWELL = ("float32", "float64", "int8", "uint16", "uint32", "int64")
"""Floats and integers of each width, signed or not."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "target"), [*((d, "c") for d in HERE), *((d, "c -march=haswell") for d in HASWELL)]
)
def test_values_are_sorted(dtype, target, cache):
    n = te.var("n")
    x = te.placeholder((4, n), dtype, name="x")
    func = te.create_prim_func([x, ops.sort(x), ops.argsort(x)], name="ordered")
    kernel = build(func, target, cache=cache)
    for length in LENGTHS:
        given = rows(dtype, length)
        found, places = kernel(given)
        np.testing.assert_array_equal(found, np.sort(given))
        np.testing.assert_array_equal(places, np.argsort(given, kind="stable"))
        if dtype[0] == "f":  # the same elements, signs of zeros included
            assert np.signbit(found).sum() == np.signbit(given).sum()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_the_largest_of_many(dtype, cache):
    given, numbers = rows(dtype, 1000), (1, 7, 32, 33, 200)
    x = te.placeholder(given.shape, dtype, name="x")
    largest = [tensor for k in numbers for tensor in ops.topk(x, k)]
    found = build(te.create_prim_func([x, *largest], name="largest"), cache=cache)(given)
    for k, values, at in zip(numbers, found[::2], found[1::2], strict=True):
        want, order = ops.OPERATORS["topk"].reference(given.astype(np.float64), k)
        np.testing.assert_array_equal(values.astype(np.float64), want, err_msg=str(k))
        np.testing.assert_array_equal(at, order, err_msg=str(k))
