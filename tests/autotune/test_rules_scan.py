"""Scans have a search space: their steps stay in order, and what is inside them is scheduled."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune.rules import make_space
from tensorir import Target, device_of, interpret, ops, reference, te


def running_sum(m=5, n=6):
    x = te.placeholder((m, n), name="X")
    s = te.placeholder((m, n), name="s")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    step = te.compute((m, n), lambda t, i: s[t - 1, i] + x[t, i], name="step")
    return te.create_prim_func([x, te.scan(first, step, s, name="total")], name="running_sum")


def recurrent_net(m=4, n=5):
    x, w = te.placeholder((m, n), name="X"), te.placeholder((n, n), name="W")
    h, k = te.placeholder((m, n), name="h"), te.reduce_axis(n, name="k")
    first = te.compute((1, n), lambda _, i: 0.0, name="first")
    gate = te.compute((m, n), lambda t, i: te.sum(h[t - 1, k] * w[i, k], axis=k), name="gate")
    step = te.compute((m, n), lambda t, i: te.max(gate[t, i] + x[t, i], 0.0), name="step")
    return te.create_prim_func([x, w, te.scan(first, step, h, name="hs")], name="net")


def running_sum_of_a_vector():
    """Its steps have no axis but the time."""
    x = te.placeholder((7,), name="x")
    return te.create_prim_func([x, ops.cumsum(x)], name="cumsum")


@pytest.mark.parametrize("make", [running_sum, recurrent_net, running_sum_of_a_vector])
def test_candidates_keep_the_meaning(make):
    func = make()
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    (expected,) = reference(func, *inputs)
    space = make_space(func, device_of(Target(vector_bits=256, threads=2)))
    draw = random.Random(0)
    for candidate in [space.sample(draw) for _ in range(4)]:
        (found,) = interpret(space.build(candidate).func, *inputs)
        np.testing.assert_allclose(found, expected)
