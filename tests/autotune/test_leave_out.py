"""What no stage reads is not computed, whatever is between it and those that leave it out."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules.alternatives import first_start
from autotune.rules.group import instances
from backends import build
from schedule import Schedule
from tensorir import PrimFunc, ops, reference, te

M, N, K = 24, 33, 17


def _given(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]


def row_of_norm() -> PrimFunc:
    a, b = _given((M, K), (K, N))
    norm = ops.layer_norm(ops.gelu(ops.matmul(a, b)))
    return te.create_prim_func([a, b, ops.softmax(ops.slice(norm, (M - 1,), (M,), axes=(0,)))])


def crop_of_image() -> PrimFunc:
    x, v, w = _given((1, 3, 16, 16), (4, 3, 3, 3), (4, 4, 3, 3))
    y = ops.conv2d(ops.relu(ops.conv2d(x, v, padding=1)), w, padding=1)
    return te.create_prim_func([x, v, w, ops.slice(y, (6, 6), (10, 10), axes=(2, 3))])


def every_third_column() -> PrimFunc:
    a, b = _given((M, K), (K, N))
    c = ops.relu(ops.matmul(a, b))
    return te.create_prim_func([a, b, te.compute((N // 3, M), lambda j, i: c[i, 3 * j + 1])])


def windows_of_two_readers() -> PrimFunc:
    (x,) = _given((M, 64))
    y = ops.exp(ops.sum(x, 1, keepdims=True) - x)
    r = te.reduce_axis((0, 4), name="r")
    sums = te.compute((M, 8), lambda i, j: te.sum(y[i, 4 * (7 - j) + r], axis=r))
    return te.create_prim_func([x, sums, te.compute((M, 4), lambda i, j: y[i, j + 3] * 2.0)])


LESS = {
    row_of_norm: 2 / M, crop_of_image: 0.4, every_third_column: 0.36, windows_of_two_readers: 0.8
}  # fmt: skip
"""Programs, and what share of the instances of all stages has to be enough."""


def _work(sch: Schedule) -> int:
    return sum(instances(sch.state.block(name)) for name in sch.get_blocks())


@pytest.mark.parametrize("make", LESS, ids=lambda make: make.__name__)
def test_what_is_left_is_enough(make, cache):
    func = make()
    start = first_start(func, "reassociated")
    assert _work(start.schedule) <= LESS[make] * _work(Schedule(func))
    assert not any(start.refused.values())
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(p.const_shape, np.float32) for p in func.inputs]
    made = build(default_schedule(func), cache=cache)(*given)
    for found, known in zip(made if isinstance(made, tuple) else (made,), reference(func, *given)):
        np.testing.assert_allclose(found, known, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("target", ["c -march=haswell", "cuda -arch=sm_90a"])
def test_it_is_done_for_all_kinds_of_devices(target):
    steps = default_schedule(every_third_column(), target).trace.instructions
    names = [step.name for step in steps]
    assert names.count("narrow") == 2
