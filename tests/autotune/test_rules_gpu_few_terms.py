"""Sums on GPUs of little: of few terms, which threads have alone, in registers, and stored once;
products of few rows or columns, one of them with the sum of something else."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from backends import build
from benchmarks.gpus.counts import EMULATOR, default, implied
from benchmarks.gpus.rows import MEMORY, PRODUCT
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))


def program(make, shape: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, make(x)], name="program")


def linear(rows: int, outputs: int, terms: int) -> PrimFunc:
    shapes = {"x": (rows, terms), "w": (outputs, terms), "b": (outputs,)}
    x, w, b = (te.placeholder(shape, name=name) for name, shape in shapes.items())
    return te.create_prim_func([x, w, b, ops.linear(x, w, b)], name="program")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_linear_layer_of_one_row_has_the_tiles_of_several(rows, cache):
    """Its bias stands in the way of leaving out the axis of the only row before the tiles."""
    sch, rules, tiles = default(linear(rows, 512, 2708))
    assert rules == ["product"] and tiles is not None
    (work,) = works_of(sch.func, DEVICE)
    assert work.sectors <= PRODUCT.most * implied(tiles)
    func = linear(rows, 37, 300)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, p.const_shape).astype("float32") for p in func.inputs]
    kernel = build(default(func)[0], f"{EMULATOR},races,uninitialised", cache=cache)
    np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("sizes", "kind", "most"),
    [((509, 256, 5), "float64", 1.1), ((509, 256, 9), "float64", 1.1),
     ((509, 256, 9), "float32", 1.2), ((2000, 512, 7), "float64", 1.01)],
)  # fmt: skip
def test_few_columns_that_lanes_read_apart_are_fetched_together(sizes, kind, most, turned):
    """Lanes have the terms of rows: each column of the other operand is one that they read apart,
    a sector for each element, five for a row of it. Tiles of as many columns as a warp has lanes
    left most of these idle, and copied short rows by themselves, which begin within sectors."""
    rows, terms, columns = sizes
    x, y = te.placeholder((rows, terms), kind, name="x"), te.placeholder((terms, columns), kind)
    k = te.reduce_axis(terms, name="k")
    if turned:  # the sums and the operands the other way around
        made = te.compute((rows, columns), lambda i, j: te.sum(y[k, j] * x[i, k], axis=k))
    else:
        made = ops.matmul(x, y)
    sch, _, tiles = default(te.create_prim_func([x, y, made], name="program"))
    works = works_of(sch.func, DEVICE)
    assert tiles is not None
    assert sum(work.sectors for work in works) <= most * implied(tiles)


def matrices_by_vectors(batches: int, rows: int, terms: int) -> PrimFunc:
    x, y = (te.placeholder((batches, n, m), name=name)
            for name, n, m in (("x", rows, terms), ("y", terms, 1)))  # fmt: skip
    return te.create_prim_func([x, y, ops.batch_matmul(x, y)], name="program")


def test_rows_beside_an_axis_of_one_value_are_copied_together(cache):
    """Lanes that had rows of 29 elements read each a sector: 8.8 times the least."""
    func = matrices_by_vectors(512, 29, 29)
    works = works_of(default(func)[0].func, DEVICE)
    assert sum(work.sectors for work in works) <= 2 * least_transactions(func, {})
    func = matrices_by_vectors(5, 7, 9)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, p.const_shape).astype("float32") for p in func.inputs]
    found = build(default(func)[0], f"{EMULATOR},races,uninitialised", cache=cache)(*given)
    np.testing.assert_array_equal(found, reference(func, *given)[0])


@pytest.mark.parametrize(
    ("shape", "kind", "most"),
    [((1000, 4096), "float32", 1.35), ((2231, 211), "float64", 1.2), ((2000, 768), "float16", 1.1)],
)
def test_few_rows_share_what_they_all_read_too(shape, kind, most):
    """Where 24 rows for each block left multiprocessors without one, each row read the factors."""
    inputs = [
        te.placeholder(s, kind, name=f"x{n}") for n, s in enumerate((shape, *[shape[1:]] * 2))
    ]
    func = te.create_prim_func([*inputs, ops.layer_norm(*inputs)], name="program")
    works = works_of(default(func)[0].func, DEVICE)
    assert sum(work.sectors for work in works) <= most * least_transactions(func, {})


ODD = {
    "terms in one step": (
        lambda x, y: ops.conv2d(x, y, layout="NHWC"),
        (25, 27, 33, 51),
        (1, 1, 51, 5),
    ),
    "parts of sums": (ops.matmul, (512, 802), (802, 825)),
}


@pytest.mark.parametrize("name", ODD)
def test_pieces_of_odd_rows_are_whole_where_they_can_be(name):
    """Steps of 17 of 51 terms began within sectors, and rows of parts of sums, which nobody but
    the kernel that adds them up sees."""
    make, *shapes = ODD[name]
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    sch, _, tiles = default(te.create_prim_func([*inputs, make(*inputs)], name="program"))
    assert tiles is not None
    assert sum(work.sectors for work in works_of(sch.func, DEVICE)) <= 1.27 * implied(tiles)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("make", [lambda x: ops.sum(x, 0), lambda x: ops.max(x, (0, 1))])
def test_sums_are_stored_once(make, kind):
    (work,) = works_of(default(program(make, (7, 3, 1 << 17), kind))[0].func, DEVICE)
    assert work.sectors * Gpu.sector_bytes <= MEMORY.most * work.bytes


@pytest.mark.parametrize("kind", ["float16", "int8", "bool"])
@pytest.mark.parametrize("shape", [(4096, 4100), (8, 1024, 1024)])
def test_columns_of_narrow_types_take_no_longer_than_wide_ones(kind, shape):
    """Threads have several side by side: one for each has as many accesses as of wide types."""
    make = (lambda x: ops.any(x, -2)) if kind == "bool" else (lambda x: ops.max(x, -2))
    works = works_of(default(program(make, shape, kind))[0].func, DEVICE)
    wide = works_of(default(program(lambda x: ops.max(x, -2), shape))[0].func, DEVICE)
    assert cycles(works, DEVICE) <= cycles(wide, DEVICE)


@pytest.mark.parametrize("shape", [(256, 68), (2, 128, 36), (255, 68), (128, 37)])
def test_columns_of_narrow_types_are_right(shape, cache):
    func = program(lambda x: ops.sum(x, -2), shape, "int8")
    x = np.random.default_rng(0).integers(-9, 9, shape).astype("int8")
    found = build(default(func)[0], f"{EMULATOR},races,uninitialised", cache=cache)(x)
    np.testing.assert_array_equal(found, reference(func, x)[0])


def test_a_sum_in_a_register_is_right(cache):
    func = program(lambda x: ops.sum(x, (0, 2)), (3, 37, 5))
    x = np.random.default_rng(0).integers(-9, 9, (3, 37, 5)).astype("float32")
    sch, rules, _ = default(func)
    assert rules == ["rows"]
    found = build(sch, f"{EMULATOR},races,uninitialised", cache=cache)(x)
    np.testing.assert_array_equal(found, reference(func, x)[0])


ROWS = {
    "sums": lambda x: ops.sum(x, (-1,)),
    "largest": lambda x: ops.max(x, (-1,)),
    "softmax": lambda x: ops.softmax(x),
    "norm": lambda x: ops.layer_norm(x),
    "places": lambda x: ops.argmax(x, -1),
}
"""What is computed of rows of few elements."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("terms", "kind"),
    [(2, "float32"), (4, "float32"), (2, "float64"), (8, "float16"),
     (3, "float32"), (5, "float32"), (6, "float16"), (7, "float64"), (12, "float32"),
     (31, "float16")],
)  # fmt: skip
def test_sectors_of_short_rows_are_moved_once(name, terms, kind, samples):
    """Whether one access of a thread has room for a row or none, however the rows are written: a
    run of all tests has one way of three, another one for each thing that is computed."""
    shapes = ((1 << 18, terms), (1 << 9, 1 << 9, terms), (1 << 18, 1, terms))
    for shape in shapes[(list(ROWS).index(name) + terms) % 3 :: 3] if samples else shapes:
        works = works_of(default(program(ROWS[name], shape, kind))[0].func, DEVICE)
        moved = sum(work.sectors for work in works) * Gpu.sector_bytes
        assert moved <= MEMORY.most * sum(work.bytes for work in works), shape


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(77, 4), (3, 35, 2), (45, 3), (300, 7), (5, 3, 2, 6)])
def test_short_rows_are_right(name, shape, cache):
    func = program(ROWS[name], shape)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
    found = build(default(func)[0], f"{EMULATOR},races,uninitialised", cache=cache)(x)
    np.testing.assert_allclose(found, reference(func, x)[0], 1e-5, 1e-5)


def batches(count: int, rows: int, columns: int, terms: int) -> PrimFunc:
    x, y = te.placeholder((count, rows, terms), name="x"), te.placeholder((count, terms, columns))
    return te.create_prim_func([x, y, ops.batch_matmul(x, y)], name="program")


@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 3, 3), (6, 6, 6), (2, 3, 64), (1, 7, 5)])
def test_small_batches_share_a_block_of_threads(sizes, cache):
    """Memory binds: a block of threads for each takes twice as long, and most of its lanes have
    nothing to do."""
    (work,) = works_of(default(batches(1 << 20, *sizes))[0].func, DEVICE)
    limits = work.cycles_by_limit(DEVICE)
    assert max(limits.values()) <= 1.1 * limits["memory"]
    func = batches(77, *sizes)
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, p.const_shape).astype("float32") for p in func.inputs]
    kernel = build(default(func)[0], f"{EMULATOR},races,uninitialised", cache=cache)
    np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])
