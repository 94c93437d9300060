"""Elementwise stages that are written in other variables have the rule of the plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.rules import choose
from backends import build
from tensorir import Target, device_of, reference, te

TARGET = Target(vector_bits=256, threads=2)


def stage(shape, made, value):
    a = te.placeholder(shape, name="a")
    return te.create_prim_func([a, te.compute(made, lambda *at: value(a, *at), name="out")])


TURNED = {
    "plain": stage((65, 130), (130, 65), lambda a, i, j: a[j, i]),
    "one axis": stage((65, 130), (8450,), lambda a, v: a[v % 65, v // 65]),
    "a unit last": stage((65, 130), (130, 65, 1), lambda a, i, j, u: a[j, i]),
    "units": stage((65, 1, 130), (1, 130, 65, 1), lambda a, w, i, j, u: a[j, w, i]),
    "two in one": stage((65, 64), (8, 520), lambda a, i, v: a[v % 65, i * 8 + v // 65]),
    "depth to space": stage(
        (64, 9, 10), (16, 18, 20), lambda a, c, h, w: a[c * 4 + h % 2 * 2 + w % 2, h // 2, w // 2]
    ),
}

LARGE = {
    "a unit last": stage((3000, 2000), (2000, 3000, 1), lambda a, i, j, u: a[j, i]),
    "one axis": stage((3000, 2000), (6000000,), lambda a, v: a[v % 3000, v // 3000]),
}
"""Results that are written past the caches."""

STRAIGHT = {
    "repeated": stage((40, 30), (40, 60), lambda a, i, j: a[i, j // 2]),
    "side by side": stage((40, 30), (40, 60), lambda a, i, j: a[i, j % 30]),
    "flat": stage((40, 30), (1200,), lambda a, v: a[v // 30, v % 30]),
}


@pytest.mark.parametrize("name", TURNED)
def test_turned_arrays_are_transposed_however_they_are_written(name):
    func = TURNED[name]
    sketch = choose(func, device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["transposed"]
    sch = sketch.build(sketch.values())
    a = np.random.default_rng(0).random(func.inputs[0].const_shape, np.float32)
    np.testing.assert_array_equal(build(sch)(a), reference(func, a)[0])


@pytest.mark.parametrize("name", STRAIGHT)
def test_what_is_read_in_order_keeps_its_variables(name):
    sketch = choose(STRAIGHT[name], device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["spatial"]
    trace = sketch.build(sketch.values()).trace
    assert "transform_block_layout" not in [step.name for step in trace.instructions]


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_are_streamed(name):
    sketch = choose(LARGE[name], device_of(TARGET), None, ()).sketch
    trace = sketch.build(sketch.values()).trace
    assert "stream" in [step.name for step in trace.instructions]
