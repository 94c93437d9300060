"""Programs of so many symbolic sizes that what is assumed for these is more than int64 holds."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import ops, te


def elementwise(x):
    return te.compute(x.shape, lambda *i: te.exp(x[i]), name="y")


def product(x):
    """Its result has ten."""
    first, last = x.shape[:5], x.shape[5:]
    w = te.placeholder((*last, *first), name="w")
    k = [te.reduce_axis(size, "k") for size in last]
    e = lambda *i: te.sum(x[(*i[:5], *k)] * w[(*k, *i[5:])], axis=k)  # noqa: E731
    return w, te.compute((*first, *first), e, name="y")


def rows(x):
    k = te.reduce_axis(x.shape[-1], "k")
    return te.compute(x.shape[:-1], lambda *i: te.sum(x[(*i, k)], axis=k), name="y")


PROGRAMS = {
    "elementwise": elementwise, "rows": rows, "product": product,
    "softmax": lambda x: ops.softmax(x, axis=-1), "argmax": lambda x: ops.argmax(x, axis=4),
    "running sums": lambda x: ops.cumsum(x, axis=4),
    "transpose": lambda x: ops.transpose(x, tuple(range(x.ndim))[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("target", ["c -threads=1 -vector_bits=256", "cuda"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_symbolic_sizes(name, target, cache):
    """Each default ended in a RangeError, or divided by a number that had run over."""
    sizes = [te.var(f"n{n}") for n in range(9)]
    x = te.placeholder(sizes, name="x")
    made = PROGRAMS[name](x)
    func = te.create_prim_func([x, *(made if isinstance(made, tuple) else (made,))])
    sch = default_schedule(func, target)
    if target == "cuda" or name != "rows":
        return
    shape = (2, 1, 3, 1, 2, 1, 1, 2, 5)
    values = np.arange(prod(shape), dtype="float32").reshape(shape) % 7
    wanted = build(func, "c -threads=1")(values)
    np.testing.assert_allclose(build(sch, "c -threads=1")(values), wanted, rtol=1e-5)


SHARED = {
    "relu": ops.relu, "softmax": ops.softmax, "norm": ops.layer_norm,
    "rows": lambda x: ops.sum(x, 1), "short": lambda x: ops.sum(ops.reshape(x, (-1, 2, 8)), 2),
    "transpose": ops.transpose, "argmax": lambda x: ops.argmax(x, 1),
    "product": lambda x: ops.matmul(x, x, transpose_b=True),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_threads_share_what_calls_make_large(name, cache):
    """A few rows are computed by the caller's thread alone, and many by all."""
    size = te.var("n")
    x = te.placeholder((size, 16), name="x")
    kernel = build(default_schedule(te.create_prim_func([x, SHARED[name](x)]), "c -threads=2"))
    regions = kernel.source.count("#pragma omp parallel")
    assert regions and kernel.source.count("<= 8192) {") == regions
    for rows in (1, 5, 3001):
        a = np.random.default_rng(rows).standard_normal((rows, 16)).astype("float32")
        y = te.create_prim_func([p := te.placeholder((rows, 16), name="x"), SHARED[name](p)])
        np.testing.assert_allclose(kernel(a), build(y, "c -threads=1")(a), rtol=1e-4, atol=1e-5)


def test_steps_that_wait_for_each_other_are_not_shared():
    x = te.placeholder((te.var("n"), 16), name="x")
    made = default_schedule(te.create_prim_func([x, ops.cumsum(x, axis=1)]), "c -threads=2")
    assert "parallel" not in str(made.func)
