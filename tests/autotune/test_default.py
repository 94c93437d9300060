"""The default schedule: one call, no tuning, right results for odd shapes.

That every operator has one is in test_renaming.py.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from backends import build, resolve
from tensorir import TensorIRError, device_of, ops, te
from tensorir.arrays import encode


def matmul(m: int, n: int, r: int):
    a, b = te.placeholder((m, r), "float32", name="A"), te.placeholder((r, n), "float32", name="B")
    return te.create_prim_func([a, b, ops.matmul(a, b)], name="matmul")


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 13, 11), (16, 64, 32), (33, 1, 17)])
def test_a_product_of_any_shape(shape):
    m, n, r = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((m, r), (r, n)))
    kernel = build(default_schedule(matmul(m, n, r)))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_rows_with_nan_and_inf():
    x = te.placeholder((5, 37), "float32", name="X")
    kernel = build(default_schedule(te.create_prim_func([x, ops.softmax(x)])))
    data = np.zeros((5, 37), np.float32)
    data[1, 3], data[2, 4] = np.nan, np.inf
    result = kernel(data)
    assert np.allclose(result[[0, 3, 4]], 1 / 37)
    assert np.isnan(result[1]).all() and np.isnan(result[2, 4])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(3, 1, 4099), (33, 35, 40), (1, 1, 700)])
def test_sums_that_start_from_something(shape, dtype):
    m, n, r = shape
    a, b = te.placeholder((m, r), dtype, name="A"), te.placeholder((r, n), dtype, name="B")
    wide = "int32" if dtype == "int8" else "float32"
    start, k = te.placeholder((n,), wide, name="S"), te.reduce_axis(r, "k")

    def element(i, j):
        terms = a[i, k].astype(wide) * b[k, j].astype(wide)
        return te.sum(terms, axis=k, init=start[j] * 3)

    func = te.create_prim_func([a, b, start, te.compute((m, n), element, name="C")])
    rng = np.random.default_rng(0)
    x, y, s = (rng.integers(-3, 4, size) for size in ((m, r), (r, n), (n,)))
    kernel = build(default_schedule(func))
    given = [encode(v, d) for v, d in ((x, dtype), (y, dtype), (s, wide))]
    np.testing.assert_array_equal(kernel(*given), x @ y + s * 3)


@pytest.mark.parametrize("length", ["m", 48])
def test_attention_of_one_step_with_symbolic_sizes(length):
    """What is written in iterations of a loop that fuses a symbolic one inside cannot be told."""
    m = te.size_var("m") if length == "m" else length
    b = te.size_var("b")
    q = te.placeholder((b, 3, 1, 64), name="Q")
    k, v = (te.placeholder((b, 3, m, 64), name=name) for name in "KV")
    kernel = build(default_schedule(te.create_prim_func([q, k, v, ops.attention(q, k, v)])))
    rng = np.random.default_rng(0)
    for batch, keys in ((1, 1), (2, 5), (0, 3), (1, 48)) if length == "m" else ((1, 48), (2, 48)):
        shapes = (batch, 3, 1, 64), (batch, 3, keys, 64), (batch, 3, keys, 64)
        x, y, z = (rng.standard_normal(s).astype(np.float32) for s in shapes)
        power = np.exp(x @ y.swapaxes(2, 3) / 8)
        expected = power / power.sum(axis=-1, keepdims=True) @ z
        np.testing.assert_allclose(kernel(x, y, z), expected, rtol=1e-4, atol=1e-5)


def test_constants_are_packed_ahead():
    a, b = te.placeholder((64, 256), name="A"), te.placeholder((256, 256), name="B")
    func = te.create_prim_func([a, b, ops.matmul(a, b, transpose_b=True)], name="turned")
    ahead = build(default_schedule(func, constants=("B",)), constants=("B",))
    assert ahead.prepare is not None
    target = "c -vector_bits=256"
    assert str(default_schedule(func, target).trace) != str(
        default_schedule(func, target, ("B",)).trace
    )


def test_what_is_refused():
    func = matmul(4, 4, 4)
    with pytest.raises(TensorIRError, match="constant 'W' is not a parameter"):
        default_schedule(func, constants=("W",))
    with pytest.raises(TensorIRError, match="write constants="):
        default_schedule(func, constants="B")


@pytest.mark.parametrize("kind", ["cuda -arch=sm_90a", "cuda-emulator", "opencl"])
def test_gpus_have_default_schedules(kind):
    """In threads that are bound, without the rules for processors."""
    sch = default_schedule(matmul(40, 50, 60), kind)
    steps = {step.name for step in sch.trace.instructions}
    assert "bind" in steps and "parallel" not in steps


@pytest.mark.parametrize("size, streamed", [(1024, False), (2048, False), (3000, True)])
def test_outputs_are_streamed_that_the_last_cache_does_not_hold(size, streamed):
    a = te.placeholder((size, 1), name="a")
    b = te.placeholder((1, size), name="b")
    out = te.compute((size, size), lambda i, j: a[i, 0] * b[0, j], name="outer")
    sch = default_schedule(te.create_prim_func([a, b, out]), "c -l3=33554432")
    assert ("stream" in [step.name for step in sch.trace.instructions]) is streamed


def test_a_table_counts_by_what_is_read_of_it():
    table = te.placeholder((1 << 18, 256), name="table")
    places = te.placeholder((1 << 11,), "int64", name="places")
    out = ops.take(table, places, 0)
    sch = default_schedule(te.create_prim_func([table, places, out]), "c -l3=33554432")
    assert "stream" not in [step.name for step in sch.trace.instructions]


def test_what_looks_like_padding_and_is_an_output_stays_one():
    a, b = te.placeholder((3, 129, 5, 7), name="A"), te.placeholder((24, 7), name="B")
    s = te.compute(a.shape, lambda *i: te.select(0 < a[i], a[i], 0.0), name="S")
    k = te.reduce_axis(7, name="k")
    c = te.compute((3, 129, 5, 24), lambda *i: te.sum(s[(*i[:3], k)] * b[i[3], k], axis=k))
    d = te.compute((6, 129, 5, 24), lambda h, *i: c[(h // 2, *i)], name="D")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, n).astype(np.float32) for n in ((3, 129, 5, 7), (24, 7)))
    first, second = build(default_schedule(te.create_prim_func([a, b, s, d], name="two")))(x, y)
    np.testing.assert_array_equal(first, np.maximum(x, 0))
    np.testing.assert_array_equal(second, np.repeat(np.maximum(x, 0) @ y.T, 2, axis=0))


@pytest.mark.parametrize("shape", [(5, 12, 12, 1), (2, 16, 4, 2)])
def test_norms_across_the_first_axes(shape):
    """Of which stages have few columns, or those of another order than their rows."""
    x = te.placeholder(shape, name="X")
    for axis in (0, 1):
        out = te.compute(shape, lambda *i: x[i] * 2, name="twice")
        norm = ops.layer_norm(out, axis=axis, algorithm="welford")
        func = te.create_prim_func([x, norm], name="norm")
        data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = (data - data.mean(axis, keepdims=True)) * 2
        want /= np.sqrt((4 * data.var(axis, keepdims=True)) + 1e-5)
        found = build(default_schedule(func, numerics="mixed"))(data)
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


MAKERS = {
    "gram": lambda x: ops.matmul(x, x, transpose_a=True),
    "scan": lambda x: ops.cumsum(ops.floor(x), axis=0),
    "softmax": lambda x: ops.softmax(x, axis=1),
    "window": lambda x: ops.max_pool2d(x, 3, stride=1, padding=1),
    "padding": lambda x: ops.pad(x, ((0, 0), (1, 0), (2, 3), (1, 1))),
}

READERS = {
    "vector": lambda x, w: ops.matmul(x, w(1, x.shape[-1]), transpose_b=True),
    "matrices": lambda x, w: ops.matmul(x, w(*x.shape[:2], 31, x.shape[-1]), transpose_b=True),
    "itself": lambda x, w: ops.matmul(x, x, transpose_a=True),
    "sum": lambda x, w: ops.sum(x, axis=-1),
    "place": lambda x, w: ops.argmax(x, axis=-1),
    "rows": lambda x, w: ops.softmax(x, axis=-1),
    "turned": lambda x, w: ops.transpose(x, (3, 1, 2, 0)),
}


SHAPES = [(8, 8, 17, 4), ("n", 2, 3, 12)]
CASES = [
    *((*pair, n % 2) for n, pair in enumerate(product(MAKERS, READERS))), ("softmax", "vector", 1)
]  # fmt: skip
"""Each pair, of known sizes and of a symbolic one by turns; the last has a choice of its own."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("maker", "reader", "shape"), CASES)
def test_what_reads_the_result_of_another_rule(maker, reader, shape):
    """A plan is asked of the program that the plans before it leave, in searches too."""
    sizes = [te.var(size) if isinstance(size, str) else size for size in SHAPES[shape]]
    inputs = [te.placeholder(sizes, name="X")]

    def weight(*shape):
        inputs.append(te.placeholder(shape, name="W"))
        return inputs[-1]

    made = MAKERS[maker](inputs[0])
    out = READERS[reader](made, weight)
    func = te.create_prim_func([*inputs, out], name="two")
    sch = default_schedule(func, "c -march=x86-64", numerics="mixed")
    space = make_space(func, device_of(resolve("c -march=x86-64")), "mixed")
    assert str(space.build(default_candidate(space)).func) == str(sch.func)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["c", "c -march=x86-64", "cuda"])
@pytest.mark.parametrize("kinds", [("float32",) * 2, ("bfloat16",) * 2, ("uint8", "int8")])
def test_products_with_a_single_number(kinds, target):
    """Which has no axes, and is an operand all the same, where it is made by another stage too."""
    a, b = te.placeholder((), kinds[0], name="A"), te.placeholder((8, 33), kinds[1], name="B")
    k = te.reduce_axis(8, name="k")
    acc = "int32" if kinds[1] == "int8" else "float32"
    stage = te.compute((), lambda: te.maximum(a[()], a[()]) * a[()], name="S")

    def program(s):
        one = s[()].astype(acc)
        first = te.compute(
            (5, 33), lambda i, j: te.sum(one * b[k, j].astype(acc), axis=k), name="one"
        )
        second = te.compute((33,), lambda j: te.sum(b[k, j].astype(acc) * one, axis=k), name="two")
        return te.create_prim_func([a, b, first, second], name="products")

    for s in (a, stage):
        assert default_schedule(program(s), target)


@pytest.mark.parametrize("target", ["c -threads=1", "c -threads=2", "c -march=x86-64", "cuda"])
@pytest.mark.parametrize("shape", [(7, 33, 15), (1, 64, 300), (300, 7, 17), (64, 64, 0), (5, 1, 1)])
def test_sums_that_read_nothing_have_a_default(shape, target):
    rows, columns, terms = shape
    k = te.reduce_axis(terms, name="k")

    def value(i, j):
        return te.sum((i * j + k).astype("float32"), axis=k)

    func = te.create_prim_func([te.compute((rows, columns), value, name="out")])
    made = default_schedule(func, target)
    assert made.func.params == func.params
    if target == "c -threads=2":
        i, j, n = np.ogrid[:rows, :columns, :terms]
        np.testing.assert_allclose(build(made, target)(), (i * j + n).sum(-1), rtol=1e-5)
