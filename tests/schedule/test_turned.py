"""Sums in lanes of another axis than the result's last one: they go through a tile that is turned
on its way out. Any rank, size, type and number of results."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import Const, interpret, reference, te, verify


def product(batch, rows, image, depth=5, dtype="float32"):
    """C[b.., i, p..] = sum over k of A[i, k] * B[b.., k, p..]."""
    a = te.placeholder((rows, depth), dtype, name="A")
    b = te.placeholder((*batch, depth, *image), dtype, name="B")
    k = te.reduce_axis(depth, name="k")
    n = len(batch)

    def element(*i):
        return te.sum(a[i[n], k] * b[(*i[:n], k, *i[n + 1 :])], axis=k)

    c = te.compute((*batch, rows, *image), element, name="C")
    return te.create_prim_func([a, b, c], name="product")


def turn(sch, block, batch, image, lanes, pixels, more_rows=False):
    """Lanes along the rows, tiles of so many of the last axis; written back in vectors of it.

    Where the rows do not fill the lanes, the last ones are less, or there are `more_rows`.
    """
    iters = sch.state.block(block).iters
    size = iters[batch].extent
    whole = isinstance(size, Const) and size.value % lanes == 0
    if whole or not more_rows:
        sums = sch.cache_write(block, 0, "local")
    else:
        sums = sch.pad_einsum(block, [lanes if n == batch else 1 for n in range(len(iters))])[-1]
        sch.set_scope(block, 0, "local")
    out = sch.cache_write(sums, 0, "local")
    names = [f"b{n}" for n in range(batch)]
    middle = [f"p{n}" for n in range(image)]
    given = ", ".join([*names, "i", *middle])
    laid = ", ".join([*names, f"i // {lanes}", *middle, f"i % {lanes}"])
    sch.transform_layout(block, 0, f"{given}: {laid}", None if whole or more_rows else "unset")
    loops = sch.get_loops(block)
    spatial, reduced = loops[: batch + 1 + image], loops[batch + 1 + image :]
    i_0, i_1 = sch.split(spatial[batch], [None, lanes])
    p_0, p_1 = sch.split(spatial[-1], [None, pixels])
    outer = [*spatial[:batch], i_0, *spatial[batch + 1 : -1], p_0]
    sch.reorder(*outer, *reduced, p_1, i_1)
    sch.reverse_compute_at(sums, p_0)
    sch.reverse_compute_at(out, p_0)
    sch.decompose_reduction(block, reduced[0])
    sch.vectorize(i_1)
    sch.unroll(p_1)
    sch.vectorize(sch.get_loops(out)[-1])
    sch.parallel(outer[0])
    return sums, out


CASES = [((), (16,)), ((), (13,)), ((2,), (7,)), ((2, 3), (5,)), ((), (3, 11)), ((2,), (3, 5))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("batch", "image"), CASES, ids=str)
@pytest.mark.parametrize(("rows", "more_rows"), [(16, False), (11, False), (11, True)])
def test_any_rank_and_size(check, batch, image, rows, more_rows):
    sch = Schedule(product(batch, rows, image))
    turn(sch, "C", len(batch), len(image), 8, 6, more_rows)
    check(sch, compiled=(batch, rows) == ((2,), 11))


@pytest.mark.parametrize("dtype", ["float64", "int32", "bfloat16", "float16", "uint8"])
def test_types(check, dtype):
    sch = Schedule(product((2,), 11, (13,), dtype=dtype))
    turn(sch, sch.get_blocks()[0], 1, 1, 8, 6)
    if dtype != "bfloat16":
        check(sch)
        return
    numbers = np.random.default_rng(0).integers(-4, 5, (143,)).astype("float32")
    held = (numbers.view("uint32") >> 16).astype("uint16")
    arrays = held[:55].reshape(11, 5), held[:130].reshape(2, 5, 13)
    expected = reference(sch.definition, *arrays)[0].astype("float32").view("uint32") >> 16
    np.testing.assert_array_equal(build(sch)(*arrays), expected)


def test_symbolic_batch():
    n = te.var("n")
    sch = Schedule(product((n,), 11, (3, 7)))
    turn(sch, "C", 1, 2, 8, 4)
    verify(sch.func)
    kernel = build(sch)
    rng = np.random.default_rng(0)
    for size in (0, 1, 3):
        arrays = [rng.integers(-3, 4, s).astype("float32") for s in ((11, 5), (size, 5, 3, 7))]
        (expected,) = reference(sch.definition, *arrays)
        np.testing.assert_array_equal(kernel(*arrays), expected)
        np.testing.assert_array_equal(interpret(sch.func, *arrays)[0], expected)


def test_symbolic_rows_and_pixels():
    n, m = te.var("n"), te.var("m")
    sch = Schedule(product((), n, (m,)))
    turn(sch, "C", 0, 1, 8, 6)
    verify(sch.func)
    kernel = build(sch)
    rng = np.random.default_rng(0)
    for rows, pixels in ((16, 12), (11, 13), (1, 1), (0, 3)):
        arrays = [rng.integers(-3, 4, s).astype("float32") for s in ((rows, 5), (5, pixels))]
        np.testing.assert_array_equal(kernel(*arrays), reference(sch.definition, *arrays)[0])


def test_several_results(check):
    """Two products of the same operands, and one that another one reads."""
    a = te.placeholder((11, 5), name="A")
    b = te.placeholder((5, 13), name="B")
    k, q = te.reduce_axis(5, name="k"), te.reduce_axis(5, name="q")
    c = te.compute((11, 13), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((11, 13), lambda i, j: te.sum(a[i, q] + b[q, j], axis=q), name="D")
    e = te.compute((11, 13), lambda i, j: te.max(c[i, j], d[i, j]), name="E")
    sch = Schedule(te.create_prim_func([a, b, c, e], name="several"))
    turn(sch, "C", 0, 1, 8, 6)
    turn(sch, "D", 0, 1, 8, 4)
    check(sch)


def test_results_of_one_reduction(check):
    """A place and a value are one reduction: each has its sums and its tile."""
    a = te.placeholder((11, 13, 5), name="A")
    k = te.reduce_axis(5, name="k")
    place = te.compute((11, 13), lambda i, j: te.argmax(a[i, j, k], axis=k), name="M")
    sch = Schedule(te.create_prim_func([a, place], name="places"))
    (block,) = sch.get_blocks()
    copies = [sch.cache_write(block, n, "local") for n in range(2)]
    tiles = [sch.cache_write(copy, 0, "local") for copy in copies]
    for n in range(2):
        sch.transform_layout(block, n, "i, j: i // 8, j, i % 8", "unset")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 8])
    j_0, j_1 = sch.split(j, [None, 6])
    sch.reorder(i_0, j_0, k, j_1, i_1)
    for copy in (*copies, *tiles):
        sch.reverse_compute_at(copy, j_0)
    check(sch)
