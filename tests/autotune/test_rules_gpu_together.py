"""Defaults for GPUs of stages that were found to go together, or not: products beside each other,
parts of networks, truth values that threads combine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_sketch, sketches
from backends import ObjectCache, build
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

EMULATOR = "cuda-emulator -arch=sm_90a"
CHECKED = f"{EMULATOR} -check=races,uninitialised"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name, shape, axis", [
    ("any", (9, 70), 1), ("all", (9, 70), 1), ("any", (70, 9), 0), ("all", (2, 900), 1),
    ("any", (3, 5, 40), (0, 2)), ("all", (5000,), 0),
])  # fmt: skip
def test_threads_combine_truth_values(name: str, shape: Any, axis: Any, cache: ObjectCache) -> None:
    """Bools are bytes in memory, and threads exchange what they have of them: rows that threads
    share could not be lowered."""
    x = te.placeholder(shape, "bool", name="x")
    func = te.create_prim_func([x, getattr(ops, name)(x, axis=axis)], name="f")
    kernel = build(default_schedule(func, EMULATOR), CHECKED, cache=cache)
    for share in (0.01, 0.99):
        given = np.random.default_rng(0).random(shape) < share
        np.testing.assert_array_equal(kernel(given), reference(func, given)[0])


def gated(shape: tuple[int, int], terms: int, by: Any) -> PrimFunc:
    """Two products of the same rows, element by element together."""
    m, n = shape
    x = te.placeholder((m, terms), name="x")
    a, b = (te.placeholder((terms, n), name=name) for name in "ab")
    return te.create_prim_func([x, a, b, by(ops.matmul(x, a), ops.matmul(x, b))], name="gated")


TOGETHER = {
    "silu": lambda u, v: ops.multiply(ops.silu(u), v),
    "sum": ops.add,
    "larger": ops.maximum,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TOGETHER)
def test_products_that_meet_have_tiles_each(name: str, cache: ObjectCache) -> None:
    """Sums of rows go together row by row where each row is its own; what all rows read goes
    through tiles: gated layers moved 160 times as much."""
    device = Gpu(Target.parse(EMULATOR))
    func = gated((256, 256), 128, TOGETHER[name])
    sketch = default_sketch(sketches(func, device, "reassociated"), ())
    assert [plan.name for plan in sketch.plans] == ["product", "product"]
    small = gated((20, 33), 17, TOGETHER[name])
    given = [np.random.default_rng(0).integers(-2, 3, p.const_shape) for p in small.inputs]
    given = [array.astype("float32") for array in given]
    found = build(default_schedule(small, EMULATOR), CHECKED, cache=cache)(*given)
    np.testing.assert_allclose(found, reference(small, *given)[0], 1e-5, 1e-5)


def test_attention_between_layers_of_a_network(cache: ObjectCache) -> None:
    """Heads are parts of rows there, which no chain of the norm behind them can have as they are:
    its default ended in an assertion."""
    t, d, heads = 8, 16, 2
    x = te.placeholder((t, d), name="x")
    w = [te.placeholder((d, d), name=f"w{n}") for n in range(4)]

    def parts(y: Any) -> Any:
        return ops.transpose(ops.reshape(y, (1, t, heads, d // heads)), (0, 2, 1, 3))

    y = ops.attention(*(parts(ops.matmul(x, each)) for each in w[:3]))
    y = ops.matmul(ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (t, d)), w[3])
    func = te.create_prim_func([x, *w, ops.layer_norm(ops.add(x, y))], name="block")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(p.const_shape, "float32") for p in func.inputs]
    found = build(default_schedule(func, EMULATOR), CHECKED, cache=cache)(*given)
    np.testing.assert_allclose(found, reference(func, *given)[0], 1e-4, 1e-4)


def with_itself(name: str, m: int, n: int) -> PrimFunc:
    """A product of a matrix by itself, as rows, columns, squares or differences meet."""
    x, k = te.placeholder((m, n), name="x"), te.reduce_axis(n, name="k")
    s, q = te.placeholder((m, m), name="s"), te.reduce_axis(m, name="q")

    def apart(i: Any, j: Any) -> Any:
        return te.sum(te.abs(x[i, k] - x[j, k]), axis=k)

    terms = {
        "rows": (x, m, lambda i, j: te.sum(x[i, k] * x[j, k], axis=k)),
        "columns": (x, n, lambda i, j: te.sum(x[q, i] * x[q, j], axis=q)),
        "square": (s, m, lambda i, j: te.sum(s[i, q] * s[q, j], axis=q)),
        "differences": (x, m, apart),
    }
    read, size, term = terms[name]
    return te.create_prim_func([read, te.compute((size, size), term, name="o")], name="itself")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(64, 64), (70, 65), (129, 70)])
@pytest.mark.parametrize("name", ["rows", "columns", "square", "differences"])
def test_a_matrix_times_itself_is_fetched_twice(name: str, shape: Any, cache: ObjectCache) -> None:
    """What is read in two places is two operands: each thread read all of its own, 30 times as
    much."""
    func = with_itself(name, *shape)
    sch = default_schedule(func, EMULATOR)
    assert sum(buffer.scope == "shared" for buffer in sch.func.buffers) == 2
    given = [np.random.default_rng(0).integers(-3, 4, p.const_shape) for p in func.inputs]
    given = [array.astype("float32") for array in given]
    found = build(sch, CHECKED, cache=cache)(*given)
    np.testing.assert_array_equal(found, reference(func, *given)[0])
