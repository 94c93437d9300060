"""The rule for what no other one takes."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from autotune import default_schedule, search_space
from autotune.rules.stores import may_stream
from backends import build, source_text
from schedule import Refusal, Schedule
from tensorir import ForKind, IterKind, dtype, ops, reference, te

TARGET = "c -march=sapphirerapids -threads=1"


def steps_of_products(kind, rows=8, columns=64):
    """What a step sums is a product, which no rule for products takes in a scan."""
    x, w = te.placeholder((4, rows, columns), kind), te.placeholder((columns, columns), kind)
    s, k = te.placeholder((4, rows, columns), kind), te.reduce_axis((0, columns))
    first = te.compute((1, rows, columns), lambda _, i, j: x[0, i, j])
    sums = te.compute((4, rows, columns), lambda t, i, j: te.sum(s[t - 1, i, k] * w[k, j], axis=k))
    step = te.compute((4, rows, columns), lambda t, i, j: sums[t, i, j] + x[t, i, j])
    return [x, w, te.scan(first, step, s)]


def windows_of_repeated_edges(kind, rows=20, columns=128):
    a = te.placeholder((rows, columns), kind)
    k, m = te.reduce_axis((0, 3)), te.reduce_axis((0, 3))

    def near(v, n):
        return te.minimum(te.maximum(v, 0), n - 1)

    def at(i, j):
        return a[near(i + k - 1, rows), near(j + m - 1, columns)]

    return [a, te.compute((rows, columns), lambda i, j: te.sum(at(i, j), axis=[k, m]))]


def sums_of_found_rows(kind, rows=16, columns=128):
    table, at = te.placeholder((50, columns), kind), te.placeholder((rows, 9), "int32")
    k = te.reduce_axis((0, 9))

    def found(i, j):
        return table[te.minimum(te.maximum(at[i, k].astype("int64"), 0), 49), j]

    return [table, at, te.compute((rows, columns), lambda i, j: te.sum(found(i, j), axis=k))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("sizes", [{}, {"rows": 7}, {"columns": 200}])
@pytest.mark.parametrize("make", [steps_of_products, windows_of_repeated_edges, sums_of_found_rows])
def test_sums_of_no_better_rule_do_not_wait_for_each_other(make, sizes, kind):
    """A vector that takes all of its terms before the next one begins waits for each addition."""
    func = te.create_prim_func(make(kind, **sizes))
    sch = default_schedule(func, "c -march=skylake-avx512 -threads=1")
    (block,) = [b for b in map(sch.state.block, sch.get_blocks()) if b.is_reduction]
    around = sch.state.loops_around(block.name)
    terms = {it.binding for it in block.iters if it.kind is IterKind.REDUCE}
    last = max(n for n, loop in enumerate(around) if loop.var in terms)
    lanes = 64 // dtype.itemsize(kind)
    sums = [f.const_extent // (lanes if f.kind is ForKind.VECTORIZED else 1) for f in around[last:]]
    assert np.prod(sums[1:]) >= 3, sch.func
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 9, p.const_shape).astype(p.dtype) for p in func.inputs]
    (expected,) = reference(func, *inputs)
    np.testing.assert_allclose(build(sch)(*inputs), expected, rtol=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0, 3), (1, 2, 0, 3)])
@pytest.mark.parametrize("count", [2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["uint8", "float16", "float32", "float64"])
def test_short_rows_from_elsewhere_are_moved_as_they_are(kind, count, order):
    """Lanes of several rows would be gathered one by one."""
    shape = (*(70, 9, 80)[: len(order) - 1], count)
    x = te.placeholder(shape, kind)
    back = [order.index(n) for n in range(len(order))]
    out = te.compute([shape[n] for n in order], lambda *at: x[tuple(at[n] for n in back)])
    func = te.create_prim_func([x, out])
    kernel = build(default_schedule(func, "c -march=skylake-avx512 -threads=1"))
    assert "gather" not in kernel.source
    given = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(kind)
    np.testing.assert_array_equal(kernel(given), given.transpose(order))


def rows_of_few(count, few, kind, form):
    """A result whose rows of `few` elements are read one row for each element, however written."""
    if form == "converted":
        a = te.placeholder((few, count), "int8", name="a")
        return [a, te.compute((count, few), lambda i, c: a[c, i].astype(kind) * 3)]
    if form == "split":
        half = 8 if count % 8 == 0 else 1
        a = te.placeholder((few, count // half, half), kind, name="q")
        return [a, te.compute((count // half, half, few), lambda i, j, c: a[c, i, j])]
    if form == "batched":
        a = te.placeholder((2, few, count), kind, name="a")
        return [a, te.compute((2, count, few), lambda b, i, c: a[b, c, i])]
    a = te.placeholder((few, count), kind, name="a")
    return [a, te.compute((count, few), lambda i, c: a[c, i], name="turned")]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("count", [400, 397])
@pytest.mark.parametrize("form", ["plain", "converted", "split", "batched"])
@pytest.mark.parametrize("kind", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("few", range(2, 9))
def test_short_rows_of_results_are_interleaved(few, kind, form, count):
    """Nothing is stored every so many elements, but of a rest."""
    func = te.create_prim_func(rows_of_few(count, few, kind, form))
    text = source_text(default_schedule(func, TARGET).func, TARGET)
    assert count % 8 or ("store_strided" not in text and "scatter" not in text)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 9, p.const_shape).astype(p.dtype) for p in func.inputs]
    (expected,) = reference(func, *inputs)
    np.testing.assert_array_equal(build(default_schedule(func))(*inputs), expected)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("count", [400, 397])
@pytest.mark.parametrize("kind", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("few", [2, 3, 5, 6, 7])
def test_values_between_neighbours_are_interleaved(few, kind, count):
    """Several results for each element, as of an image that is enlarged, made of it and the ones
    beside it: vectors are computed along what is read, and none of few lanes is stored."""
    a = te.placeholder((9, count + 1), kind, name="a")
    between = te.compute(
        (9, count * few),
        lambda r, v: a[r, v // few] + a[r, (v + 1) // few] + a[r, (v + few - 1) // few],
    )
    func = te.create_prim_func([a, between])
    text = source_text(default_schedule(func, TARGET).func, TARGET)
    stored = [int(lanes) for lanes in re.findall(r"STORE\(\w+x(\d+),", text)]
    assert count % 8 or min(stored) >= 8
    inputs = [np.random.default_rng(0).integers(0, 9, (9, count + 1)).astype(kind)]
    (expected,) = reference(func, *inputs)
    np.testing.assert_array_equal(build(default_schedule(func))(*inputs), expected)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("few", range(2, 9))
@pytest.mark.parametrize("reads", ["sum", "planes", "terms"])
def test_short_rows_of_what_is_read_are_taken_apart(reads, few, kind):
    """Rows of elements side by side: added up as written or by a sum, or each on its own."""
    a, c = te.placeholder((400, few), kind, name="a"), te.reduce_axis((0, few))
    made = {
        "sum": lambda: te.compute((400,), lambda i: te.sum(a[i, c], axis=c)),
        "planes": lambda: te.compute((few, 400), lambda j, i: a[i, j]),
        "terms": lambda: te.compute(
            (400,), lambda i: sum((a[i, n] for n in range(1, few)), a[i, 0])
        ),
    }[reads]()
    func = te.create_prim_func([a, made])
    text = source_text(default_schedule(func, TARGET).func, TARGET)
    assert "load_strided" not in text and "gather" not in text
    inputs = [np.random.default_rng(0).integers(0, 9, (400, few)).astype(kind)]
    (expected,) = reference(func, *inputs)
    np.testing.assert_array_equal(build(default_schedule(func))(*inputs), expected)


@pytest.mark.parametrize("target", ["c -march=haswell -l3=4096", "c -march=x86-64 -l3=4096"])
@pytest.mark.filterwarnings("error::UserWarning")  # that another plan is taken
def test_sums_are_not_written_past_the_caches(monkeypatch, target):
    """They are read back with each term. No plan of a large result that does so may be refused."""
    monkeypatch.setattr("autotune.rules.stores.STREAM_FROM", 1)
    a, b, k = te.placeholder((34, 64)), te.placeholder((64,)), te.reduce_axis((0, 3))
    sums = te.compute(
        (32, 64),
        lambda i, j: te.sum(te.tanh(a[i + k, j] * b[j]), axis=k, where=(i + k + j) % 2 == 0),
    )
    func = te.create_prim_func([a, b, sums])
    default_schedule(func, target)
    space, rng = search_space(func, target), random.Random(0)
    for _ in range(100):
        candidate = space.sample(rng)
        try:
            space.build(candidate)
        except Refusal as error:
            assert "stream" not in error.headline


@pytest.mark.filterwarnings("error::UserWarning")  # that another plan is taken
@pytest.mark.parametrize("scan", [ops.cumsum, ops.cumprod])
def test_what_several_stages_write_is_not_written_past_the_caches(monkeypatch, scan):
    """First rows and steps of a scan: `stream` refuses what a second block writes too."""
    monkeypatch.setattr("autotune.rules.stores.STREAM_FROM", 1)
    a = te.placeholder((40, 64), name="a")
    func = te.create_prim_func([a, scan(a, axis=0)])
    sch = Schedule(func)
    assert len(sch.get_blocks()) == 2
    assert not any(may_stream(sch, name) for name in sch.get_blocks())
    assert may_stream(Schedule(te.create_prim_func([a, ops.relu(a)])), "relu")
    assert not default_schedule(func, "c -march=haswell -l3=4096").func.attrs.get("stream")
