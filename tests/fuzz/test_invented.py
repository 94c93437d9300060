"""What rules and the search make of random tensor expressions, and of those that failed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune import default_schedule
from autotune.partials import lane_axis
from autotune.rules import make_space
from backends import build, resolve, source_text
from schedule import Schedule, ScheduleError, library
from tensorir import Target, TensorIRError, device_of, parse, te

sys.path.insert(0, str(Path(__file__).parent))
import fuzz  # noqa: E402
import invented  # noqa: E402
import invented_checks  # noqa: E402
from network_checks import check_default, check_schedule  # noqa: E402


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_seeds_have_no_findings(seed):
    row = invented_checks.check_seed(seed)
    assert row["finding"] is None, fuzz.show_finding(row["finding"])


WORDS = (
    "max( opaque reduce( isnan( let( select % // bf16 f16 i8 end: limit: n] tanh i64( n, u64[ i16["
    " popcount( u8["
).split()


def test_what_is_drawn_is_of_all_kinds():
    """A step of the generator that never came would not be missed."""
    texts = [str(invented.draw(random.Random(seed).choice).func) for seed in range(150)]
    found = {word: sum(word in text for text in texts) for word in WORDS}
    assert min(found.values()) > 2, found


CUDA = Target.parse("cuda")

PART_OF_A_UNIT_AXIS = """@prim_func
def f(p0: f32[29], t1: f32[40, 5]):
    t0 = alloc(f32[7, 24])
    for i0, i1, k0, k1 in grid(7, 24, 24, 1):
        with block("t0"):
            vi0 = spatial(7, i0)
            vi1 = spatial(24, i1)
            vk0 = reduce(24, k0)
            vk1 = reduce(1, k1)
            with init():
                t0[vi0, vi1] = float("-inf")
            t0[vi0, vi1] = max(t0[vi0, vi1], sqrt(fabs(p0[vk1 + vi1 + 2])))
    for i0_t1, i1_t1 in grid(40, 5):
        with block("t1"):
            vi0 = spatial(40, i0_t1)
            vi1 = spatial(5, i1_t1)
            t1[vi0, vi1] = tanh(t0[vi1, vi0 % 4] * t0[4 - vi1, vi1])
"""

PART_READ_IN_PIECES = """@prim_func
def f(p0: u8[6, 4, 3], p1: u8[16, 7], p2: f32[6, 7, 3], p3: f32[4, 16, 6], t0: f32[16, 3, 4, 7]):
    for i0, i1, i2, i3, k0 in grid(16, 3, 4, 7, 16):
        with block("t0"):
            vi0 = spatial(16, i0)
            vi1 = spatial(3, i1)
            vi2 = spatial(4, i2)
            vi3 = spatial(7, i3)
            vk0 = reduce(16, k0)
            with init():
                t0[vi0, vi1, vi2, vi3] = 0.0
            t0[vi0, vi1, vi2, vi3] = t0[vi0, vi1, vi2, vi3] + select(
                0.0 < p3[vk0 // 4, vi0, vi3 % 6],
                max(f32(p0[min(max(vi3, 0), 5), vi2, vi1]), f32(p1[vi0, vi3])),
                p2[vk0 // 3, vi3, vi1])
"""

AXIS_WHERE_OTHERS_END = """@prim_func
def f(p0: f32[5, 11], p1: f32[5], p2: f32[5, 3, 16], t0: f32[5, 8, 2]):
    for i0, i1, i2, k0, k1, k2 in grid(5, 8, 2, 8, 24, 16):
        with block("t0"):
            vi0 = spatial(5, i0)
            vi1 = spatial(8, i1)
            vi2 = spatial(2, i2)
            vk0 = reduce(8, k0)
            vk1 = reduce(24, k1)
            vk2 = reduce(16, k2)
            with init():
                t0[vi0, vi1, vi2] = 0.0
            t0[vi0, vi1, vi2] = t0[vi0, vi1, vi2] + (
                p0[vi0, max(vi2 - 1, 0) + vk0] * p2[(max(vi2 - 1, 0) + vk0) % 2, vi2, vk2])
"""


@pytest.mark.parametrize("text", [PART_OF_A_UNIT_AXIS, PART_READ_IN_PIECES])
@pytest.mark.parametrize("numerics", ["bitwise", "reassociated"])
def test_parts_that_their_copies_compute(text, numerics):
    """A part of the terms that is made ahead and packed was refused to be inlined into its copy: it
    stores to 0 in a dimension of one element, or has an axis for each piece of an index."""
    check_default(parse(text), target="c -threads=1", numerics=numerics)


@pytest.mark.parametrize("target", ["c", "cuda-emulator -check=bounds,races"])
def test_an_index_that_is_an_axis_where_others_end(target):
    """What an operand is read at was asked without knowing where the axes end, and the rule for
    products on GPUs ended in a KeyError."""
    check_default(parse(AXIS_WHERE_OTHERS_END), target=target)


def test_a_tile_of_what_is_read_one_further():
    """An index that an axis moves is that axis, and was looked for at the axis itself."""
    x, y = te.placeholder((3, 40, 5), name="x"), te.placeholder((2, 40), name="y")

    def row(i, a, j, b):
        k = te.reduce_axis(2, name="k")
        return te.sum(x[i, j, k + 1] + te.if_then_else(k < 1, y[k, j], 0.0), axis=k)

    func = te.create_prim_func([x, y, te.compute((3, 7, 40, 9), row, name="z")])
    check_default(func, target="cuda-emulator -check=bounds,races", numerics="reassociated")


def test_what_no_instance_reads():
    """On other axes `j - j - 1` is -1, and the condition that it is not negative was forgotten."""
    x = te.placeholder((5, 8), name="x")

    def element(i, j):
        at = j - j - 1
        return te.if_then_else(te.all(at >= 0, at < 5), x[at, j], x[i, j])

    y = te.compute((5, 8), element, name="y")
    sch = Schedule(te.create_prim_func([x, y, te.compute((5, 8), lambda i, j: y[i, j] + 1)]))
    sch.cache_write("y", 0, "local")
    sch.transform_layout("y", "y_local", "d0, d1: d0, d1 // 4, d1 % 4")
    rows = np.arange(40, dtype="float32").reshape(5, 8)
    np.testing.assert_array_equal(build(sch)(rows)[0], rows)


def test_only_rows_that_read_the_same_are_a_choice():
    """Of a product of nothing, the number of rows was one, and refused whatever it was."""
    x = te.placeholder((2, 1), name="x")

    def row(i):
        k = te.reduce_axis(1, name="k")
        return te.prod(x[i, k] - 1, axis=k)

    space = make_space(te.create_prim_func([x, te.compute((2,), row)]), device_of(CUDA))
    for seed in range(8):
        space.build(space.sample(random.Random(seed)))


def test_a_step_of_a_scan_that_a_step_before_it_reads():
    """A stage was placed where its users are, of which one is of the next step."""
    w, state = te.placeholder((4, 4), name="w"), te.placeholder((8, 4), name="state")
    first = te.compute((1, 4), lambda t, j: w[0, j], name="first")

    def mix(t, j):
        k = te.reduce_axis(4, name="k")
        return te.sum(state[t - 1, k] * w[k, j], axis=k)

    mixed = te.compute((8, 4), mix, name="mixed")
    step = te.compute((8, 4), lambda t, j: te.tanh(mixed[t, j]), name="step")
    states = te.scan(first, step, state, name="states")
    last = te.compute((8, 4), lambda t, j: states[t, 3 - j] + 1)
    space = make_space(te.create_prim_func([w, last]), device_of(resolve("c")))
    for seed in range(30):
        space.build(space.sample(random.Random(seed)))


@pytest.mark.parametrize("target", ["c", "c -march=x86-64"])
def test_vectors_of_a_symbolic_axis(target):
    """An axis whose length only a call tells was taken for one that is written out."""
    n = te.var("n")
    x, w, size = (te.placeholder(s, name=f"p{len(s)}{s[0]}") for s in [(46,), (8, 1), (n,)])

    def row(i):
        k = te.reduce_axis(24, name="k")
        return te.sum(x[(k * 2 - 1) % 46] - w[i % 8, 0], axis=k)

    check_default(te.create_prim_func([x, w, size, te.compute((n,), row)]), {"n": 17}, target)


def test_partial_sums_of_at_most_one_vector():
    """Parts of a sum that ends at 32 or before, 32 each, are one, in which no loop is left."""
    x, y, end = te.placeholder((5, 31), name="x"), te.placeholder((33,), name="y"), te.var("end")

    def row(i):
        k, m = te.reduce_axis(te.min(end, 31), name="k"), te.reduce_axis(5, name="m")
        return te.sum(x[m, k] + y[k], axis=[m, k])

    sch = Schedule(te.create_prim_func([x, y, end, te.compute((64,), row, name="z")]))
    c = library.find_contraction(sch, "z")
    (axis,) = [n for n in c.reduced if c.axes[n].extent is None]
    with pytest.raises(TensorIRError, match="save nothing"):
        library.partial_sums(sch, c, library.Partial(axis, 32, "parts"))


def test_a_reader_of_another_shape_is_no_epilogue():
    """It reads a column as a row, of which there is one element: as many, and not those."""
    x, w = te.placeholder((11, 8, 11, 4), name="x"), te.placeholder((8, 9, 1), name="w")

    def row(i, j):
        a, b, c = (te.reduce_axis(n, name=f"k{n}{m}") for m, n in enumerate((3, 8, 8)))
        return te.min(te.abs(x[7 - b, c, b, i] - w[b, b, j]), axis=[a, b, c])

    y = te.compute((4, 1), row, name="y")
    z = te.compute((4, 1), lambda i, j: te.if_then_else(i < 1, y[j, i], 0.0) + 1, name="z")
    check_default(te.create_prim_func([x, w, z]))


def test_lanes_of_terms_that_are_few_whatever_is_called():
    """How many there may be was not known of a symbolic end, and lanes for more were refused."""
    x, y = te.placeholder((64, 8), name="x"), te.placeholder((8, 8), name="y")
    z, end = te.placeholder((8, 9, 64), name="z"), te.var("end")

    def row(i, j):
        k, m = te.reduce_axis(64, name="k"), te.reduce_axis(te.min(end, 4), name="m")
        return te.sum((x[k, m] + z[j, i, k]) * y[j, m], axis=[k, m])

    sch = Schedule(te.create_prim_func([x, y, z, te.compute((9, 8), row, name="out"), end]))
    c = library.find_contraction(sch, "out")
    (few,) = [n for n in c.reduced if c.axes[n].extent is None]
    with pytest.raises(ScheduleError, match="of 4 terms"):
        library.lanes(sch, c, (few, 8))
    assert lane_axis(c, device_of(resolve("c -march=haswell"))) != few


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("target", ["c", "c -threads=1", "cuda-emulator"])
def test_the_place_of_a_largest_product_and_sum(stored, target):
    """It is where the largest value is found again: computed twice, it may be rounded in two ways,
    and was found nowhere."""
    p, q = te.placeholder((32,), "int8", name="p"), te.placeholder((32, 32), "float64", name="q")
    r = te.placeholder((32, 5), "float64", name="r")

    def value(i, j, k):
        return p[j].astype("float64") * q[j, k] - r[j, i]

    stage = te.compute((5, 32, 32), value, name="stage")

    def place(i, j):
        k = te.reduce_axis(32, name="k")
        return te.argmax(stage[i, j, k] if stored else value(i, j, k), axis=k)

    func = te.create_prim_func([p, q, r, te.compute((5, 32), place, name="place")])
    check_default(func, target=target)
    space = make_space(func, device_of(resolve(target)))
    for seed in range(4 if target == "c" else 0):
        check_schedule(space.build(space.sample(random.Random(seed))), target)


@pytest.mark.parametrize("rows, columns", [(7, 96), (3, 70000)])
@pytest.mark.parametrize("target", ["c", "cuda-emulator"])
def test_a_mask_of_what_is_the_largest(target, rows, columns):
    """What two stages compute, of which one compares, is computed once."""
    shapes = [(rows, columns), (columns,), (rows,)]
    x, scale, bias = (te.placeholder(shape, name=n) for shape, n in zip(shapes, "xsb"))
    y = te.compute(shapes[0], lambda i, j: x[i, j] * scale[j] + bias[i], name="y")
    k = te.reduce_axis(columns, name="k")
    top = te.compute((rows,), lambda i: te.max(y[i, k], axis=k), name="top")
    mask = te.compute(shapes[0], lambda i, j: te.if_then_else(y[i, j] == top[i], 1, 0), name="mask")
    func = te.create_prim_func([x, scale, bias, mask])
    sch = default_schedule(func, target)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    assert (build(sch, target)(*given).sum(axis=1) == 1).all()


BAND_THAT_A_CALL_ENDS = """
@prim_func
def f(end: i64 >= 0, p6: f32[65, 49], p7: f32[33, 16], t2: f32[()]):
    for k0, k1 in grid(16, min(end, 33)):
        with block("t2"):
            vk0 = reduce(16, k0)
            vk1 = reduce(min(end, 33), k1)
            with init():
                t2[()] = 0.0
            t2[()] = t2[()] + select(
                vk1 - vk0 < 3 and vk0 - vk1 < 2,
                exp(fabs(p6[vk1 + vk1, vk0 + vk1] - p7[vk1, vk0]) * -1.0),
                exp(fabs(p6[vk1 + vk1, vk0 + vk1] - p7[vk1, vk0]) * -1.0) * 0.5)
"""


def test_the_text_of_a_band_that_a_call_ends():
    """A loop was cut where each condition ends, each time into pieces that have the ends of all
    pieces before in their own: four megabytes."""
    sch = default_schedule(parse(BAND_THAT_A_CALL_ENDS), "c -march=haswell")
    assert len(source_text(sch.func, "c -march=haswell")) < 40_000


@pytest.mark.parametrize("target", ["c", "cuda-emulator"])
def test_sums_of_at_most_one_term(target):
    """The loop of their terms is no axis that could be cut."""
    x, y, end = te.placeholder((12,), name="x"), te.placeholder((32,), name="y"), te.var("end")

    def row(i, j):
        k = te.reduce_axis(te.min(end, 1), name="k")
        return te.sum(x[j] + y[i], axis=k)

    z = te.compute((32, 12), row, name="z")
    sch = default_schedule(te.create_prim_func([x, y, z, end]), target)
    ones = np.ones(12, "float32"), np.ones(32, "float32")
    for count in (0, 1, 5):
        np.testing.assert_array_equal(build(sch, target)(*ones, count), 2.0 * min(count, 1))


def test_where_sums_end_is_read_by_those_threads_alone_that_have_a_sum():
    """Registers are computed beyond the edge too, and where their sums end was read there."""
    ends, x = te.placeholder((40,), "int32", name="ends"), te.placeholder((9, 12), name="x")

    def row(i, j):
        k = te.reduce_axis(te.clip(ends[j].astype("int64"), 0, 9), name="k")
        return te.sum(x[k, i], axis=k)

    y = te.compute((12, 40), row, name="y")
    check_default(te.create_prim_func([ends, x, y]), target="cuda-emulator -check=bounds")
