"""Sums weighted by a softmax in blocks: the values of the definition, and what is none of them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Mismatch, apply_algorithm, interpret, ops, te
from tensorir.algorithms.online import online_algorithm
from tensorir.visit import blocks


def in_blocks(func, block, size=4):
    node = next(b for b in blocks(func.body) if b.name == block)
    return apply_algorithm(func, node, online_algorithm(size)).func


def same(func, block, *inputs, size=4, close=1e-5):
    """The program in blocks, which computes what the definition does, NaN for NaN."""
    other = in_blocks(func, block, size)
    with np.errstate(all="ignore"):
        wanted = interpret(func, *inputs)
        found = interpret(other, *inputs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)
    return other


def attention(shape=(1, 2, 3, 4), keys=9, shared=1, dtype="float32", **options):
    b, h, m, d = shape
    q = te.placeholder(shape, dtype, name="q")
    k = te.placeholder((b, h // shared, keys, d), dtype, name="k")
    v = te.placeholder((b, h // shared, keys, d + 1), dtype, name="v")
    return [q, k, v], lambda **more: ops.attention(q, k, v, **options, **more)


def arrays(params, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal([int(n) for n in map(str, p.shape)]) * 3).astype(p.dtype)
        for p in params
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keys": 8},
        {"causal": True},
        {"shared": 2, "keys": 5},
        {"dtype": "float16", "close": 2e-3},
    ],
)
def test_attention(options):
    close = options.pop("close", 1e-5)
    params, call = attention(**options)
    func = te.create_prim_func([*params, call()])
    same(func, "mixed", *arrays(params), close=close)


def test_rows_and_blocks_that_are_masked():
    """A row that sees nothing, one whose first block is masked, and one whose last ones are."""
    params, call = attention((1, 1, 3, 2))
    mask = te.placeholder((3, 9), "bool", name="mask")
    func = te.create_prim_func([*params, mask, call(mask=mask)])
    seen = np.zeros((3, 9), bool)
    seen[1, 5:] = seen[2, :3] = True
    other = same(func, "mixed", *arrays(params), seen)
    (out,) = interpret(other, *arrays(params), seen)
    assert np.isnan(out[0, 0, 0]).all() and not np.isnan(out[0, 0, 1:]).any()


def test_infinite_scores():
    x = te.placeholder((4, 6), name="x")
    v = te.placeholder((6, 2), name="v")
    func = te.create_prim_func([x, v, ops.matmul(ops.softmax(x), v, name="out")])
    given, values = arrays([x, v])
    given[0, 1], given[1, 4], given[2, 2], given[3, :4] = np.inf, np.nan, -np.inf, -np.inf
    same(func, "out", given, values)


def test_what_the_sums_of_weights_are_used_for_besides():
    """The logarithm of a row's total, as what is trained wants it."""
    x = te.placeholder((3, 10), name="x")
    v = te.placeholder((10, 2), name="v")
    k, r, s = (te.reduce_axis(10, name=n) for n in "krs")
    most = te.compute((3,), lambda i: te.max(x[i, k] * 2.0, axis=k), "most")
    heavy = te.compute((3, 10), lambda i, j: te.exp(x[i, j] * 2.0 - most[i]), "heavy")
    sums = te.compute((3,), lambda i: te.sum(heavy[i, r], axis=r), "sums")
    mixed = te.compute((2, 3), lambda e, i: te.sum(heavy[i, s] * v[s, e], axis=s), "mixed")
    out = te.compute((2, 3), lambda e, i: mixed[e, i] / sums[i], "out")
    logs = te.compute((3,), lambda i: te.log(sums[i]), "logs")
    other = same(te.create_prim_func([x, v, out, logs]), "mixed", *arrays([x, v]))
    names = {b.name for b in blocks(other.body)}
    assert not names & {"most", "heavy"} and "sums" in names


def weighted(change=lambda e: e, keep=False, terms=10):
    x = te.placeholder((3, terms), name="x")
    v = te.placeholder((terms, 2), name="v")
    soft = ops.softmax(x, name="soft")
    r = te.reduce_axis(terms, name="r")
    out = te.compute((3, 2), lambda i, e: te.sum(change(soft[i, r]) * v[r, e], axis=r), "out")
    return te.create_prim_func([x, v, out, *([soft] if keep else [])])


def test_what_is_something_else():
    in_blocks(weighted(), "out")
    for func, why in (
        (weighted(keep=True), "needs what|weighted"),
        (weighted(lambda e: e + 1.0), "is no sum of terms weighted"),
        (weighted(terms=4), "which one block of 4 has room for"),
    ):
        with pytest.raises(Mismatch, match=why):
            in_blocks(func, "out")


def test_rows_of_unknown_length():
    n = te.var("n")
    x, v = te.placeholder((2, n), name="x"), te.placeholder((n, 3), name="v")
    func = te.create_prim_func([x, v, ops.matmul(ops.softmax(x), v, name="out")])
    for count in (1, 4, 9):
        rng = np.random.default_rng(count)
        given = [rng.standard_normal(s).astype("float32") for s in ((2, count), (count, 3))]
        same(func, "out", *given)
