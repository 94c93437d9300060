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
