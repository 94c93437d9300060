"""What many rows have in common is computed once, ahead of them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Call, reference, te, walk_exprs

TARGET = "c -march=skylake-avx512 -threads=1"

PARTS = {
    "normalise": lambda x, v: (x - v) * te.rsqrt(v * 0.5 + 1.0),
    "gain": lambda x, v: x * te.exp(v) / (1.0 + te.exp(-v)),
    "quotient": lambda x, v: x + 1.0 / (v + 2.0),
    "twice": lambda x, v: te.sqrt(v + 1.0) * (x - te.sqrt(v + 1.0)),
    "chosen": lambda x, v: te.if_then_else(x > 0.5, x * te.log(v + 1.0), x),
}


def rows(shape, f, kind="float32", moved=-1):
    """A value of each element and of one number for each place along an axis of the result."""
    x, v = te.placeholder(shape, kind, name="x"), te.placeholder((shape[moved],), kind, name="v")
    return [x, v, te.compute(shape, lambda *at: f(x[at], v[at[moved]]), name="out")]


def computed_ahead(sch):
    """The stages that make parts of the result."""
    return [str(name) for name in sch.get_blocks() if "part" in str(name)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(37, 70), (3, 11, 5, 33), (1, 40, 17)])
@pytest.mark.parametrize("part", PARTS)
def test_what_rows_share_is_computed_once(part, shape, kind, cache):
    func = te.create_prim_func(rows(shape, PARTS[part], kind))
    sch = default_schedule(func, TARGET)
    ahead = computed_ahead(sch)
    assert ahead
    for name in ahead:
        assert [it.extent.value for it in sch.state.block(name).iters] == [shape[-1]]
    store = sch.state.block("out").body
    assert not any(isinstance(e, Call) for e in walk_exprs(store.value))
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape).astype(kind), rng.random(shape[-1:]).astype(kind)]
    (expected,) = reference(func, *arrays)
    error = {"float16": 2e-3}.get(kind, 1e-5)
    np.testing.assert_allclose(build(sch, "c")(*arrays), expected, rtol=error, atol=error)


@pytest.mark.parametrize(
    "others",
    [
        rows((8, 70), PARTS["normalise"]),  # few rows
        rows((37, 70), PARTS["normalise"], moved=0),  # compilers keep it out of the loop
        rows((37, 70), lambda x, v: (x - v) * v),  # soon computed
        rows((37, 70), lambda x, v: te.exp(x * v)),  # nothing in common
    ],
)
def test_what_they_do_not_share_stays(others):
    assert not computed_ahead(default_schedule(te.create_prim_func(others), TARGET))
