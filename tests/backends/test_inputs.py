from __future__ import annotations

import numpy as np
import pytest

from backends import Signature, random_arguments
from tensorir import Buffer, PrimFunc, Store, Var, const
from tensorir import dtype as dt

N = Var("n")


def arguments(dtype, shape=(N, 100), seed=0):
    a, c = Buffer("A", shape, dtype), Buffer("C", (1,), "float32")
    func = PrimFunc("f", (a, c), (), Store(c, (const(0),), const(0.0, "float32")))
    signature = Signature.of(func)
    sizes = {var.name: 3 for var in signature.sizes}
    return random_arguments(signature, sizes, lambda s, d: np.full(s, 77, dt.numpy_dtype(d)), seed)


@pytest.mark.parametrize("dtype", dt.SCALARS)
def test_numbers_fit_their_type(dtype):
    a, c = arguments(dtype)
    assert a.shape == (3, 100)
    assert a.dtype == dt.numpy_dtype(dtype)
    assert (c == 0).all()
    values = a
    if dtype == "bfloat16":
        values = (a.astype(np.uint32) << 16).view(np.float32)
    low, high = (-1, 1) if dt.is_float(dtype) else (0, 7)
    assert low <= values.min() < values.max() <= high
    assert len(np.unique(a)) > 1
    assert arguments(dtype, shape=())[0].shape == ()


def test_the_seed_decides():
    first, again, other = (arguments("float32", seed=seed)[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
