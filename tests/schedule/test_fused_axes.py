"""Dimensions of operands that one axis of a nest runs over, and operands read at sums of variables:
packing, moving and writing back go on."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from schedule.state import LONGEST_NAME
from tensorir import interpret, parse, reference, te, verify


def pointwise(batch, image, channels=5, filters=8, dtype="float32"):
    """Z = relu of a 1x1 convolution over an image of any rank."""
    x = te.placeholder((batch, channels, *image), dtype, name="X")
    f = te.placeholder((filters, channels), dtype, name="F")
    c = te.reduce_axis(channels, name="c")
    y = te.compute(
        (batch, filters, *image), lambda b, o, *p: te.sum(x[(b, c, *p)] * f[o, c], axis=c), name="Y"
    )
    z = te.compute(y.shape, lambda *i: te.max(y[i], 0), name="Z")
    return te.create_prim_func([x, f, z], name="pointwise")


def joined(image):
    """Parameters for the dimensions of an image, and their position as one number."""
    names = [f"p{n}" for n in range(len(image))]
    number = names[0]
    for name, size in zip(names[1:], image[1:]):
        number = f"({number}) * {size} + {name}"
    return ", ".join(names), number


IMAGES = [(7, 7), (4, 4), (5, 12), (6, 8), (1, 9), (9, 1), (1, 1), (13, 11), (3, 4, 5), (2, 7, 3)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("image", IMAGES, ids=str)
@pytest.mark.parametrize("lanes", [4, 7, 8])
def test_lanes_of_several_dimensions_are_packed(check, image, lanes):
    """The loops are fused and cut into vectors; the copy of the operand lies by these."""
    sch = Schedule(pointwise(2, image))
    names, number = joined(image)
    count = int(np.prod(image))
    pad = 0.0 if count % lanes else None
    copy = sch.cache_read("Y", "X", "global")
    text = f"b, c, {names}: b, ({number}) // {lanes}, c, ({number}) % {lanes}"
    sch.transform_layout(copy, 0, text, pad)
    assert sch.get_blocks() == [copy, "Y", "Z"], "the copy pads too: nothing is filled before"
    b, o, *pixels, c = sch.get_loops("Y")
    outer, inner = sch.split(sch.fuse(*pixels), [None, lanes])
    sch.reorder(outer, c, o, inner)
    sch.compute_at(copy, outer)
    check(sch, compiled=False)
    sch.decompose_reduction("Y", c)
    sch.vectorize(inner)
    sch.unroll(o)
    sch.parallel(b)
    check(sch, compiled=lanes == 8 and image in IMAGES[:4])


@pytest.mark.parametrize("image", [(7, 7), (5, 1), (1, 5), (13, 11), (2, 3, 5)], ids=str)
def test_a_nest_on_one_axis_for_several_dimensions(check, image):
    """Operands by reindex, the result and its reader follow: all are moved to one tile."""
    sch = Schedule(pointwise(2, image))
    names, number = joined(image)
    sch.transform_block_layout("Y", f"b, o, {names}, c: b, o, {number}, c")
    copy = sch.reindex("Y", "X", "global")
    sums = sch.reindex("Y", "Y", "local")
    sch.transform_layout(sums, "Y", f"b, o, {names}: b, o, {number}")
    sch.transform_block_layout("Z", f"b, o, {names}: b, o, {number}")
    _, o, p, c = sch.get_loops("Y")
    outer, inner = sch.split(p, [None, 8])
    sch.reorder(outer, o, c, inner)
    sch.compute_at(copy, outer)
    sch.reverse_compute_at(sums, outer)
    sch.reverse_compute_at("Z", outer)
    sch.vectorize(inner)
    sch.parallel(outer)
    check(sch)


@pytest.mark.parametrize(
    ("image", "tile"), [((7, 7), 7), ((5, 3), 6), ((1, 4), 4), ((3, 4), 2), ((2, 3, 5), 5)], ids=str
)
def test_a_reader_at_the_places_of_a_layout_follows(check, image, tile):
    """It keeps its variables, and runs where what it reads was made: each instance once."""
    sch = Schedule(pointwise(2, image))
    names, number = joined(image)
    sch.transform_block_layout("Y", f"b, o, {names}, c: b, o, {number}, c")
    sch.transform_layout("Y", "Y", f"b, o, {names}: b, o, {number}")
    outer, _ = sch.split(sch.get_loops("Y")[2], [None, tile])
    sch.reverse_compute_at("Z", outer)
    sch.parallel(outer)
    check(sch, compiled=image == (5, 3))


def test_a_reader_at_other_places_is_told_what_helps():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[7 - i], name="C")
    sch = Schedule(te.create_prim_func([a, c], name="reverse"))
    refused(sch.reverse_compute_at, "C", "i", match="transform_layout 'B', or transform_block_lay")
    sch = Schedule(pointwise(2, (7, 7)))
    sch.transform_block_layout("Y", "b, o, y, z, c: b, o, y * 7 + z, c")
    sch.transform_layout("Y", "Y", "b, o, y, z: b, o, y * 7 + z")
    outer, _ = sch.split(sch.get_loops("Y")[2], [None, 4])
    refused(sch.reverse_compute_at, "Z", outer, match="or transform_block_layout 'Z'")
    sch.transform_block_layout("Z", "b, o, y, z: b, o, y * 7 + z")
    sch.reverse_compute_at("Z", outer)


def convolution(batch, size, stride, dilation, pad, dtype="float32", channels=3, filters=6, taps=3):
    x = te.placeholder((batch, channels, size, size), dtype, name="X")
    f = te.placeholder((filters, channels, taps, taps), dtype, name="F")
    wide = size + 2 * pad

    def inside(b, c, y, z):
        found = te.all(y >= pad, y < size + pad, z >= pad, z < size + pad)
        return te.if_then_else(found, x[b, c, y - pad, z - pad], 0)

    padded = te.compute((batch, channels, wide, wide), inside, name="padded") if pad else x
    axes = [te.reduce_axis(n, name=k) for n, k in ((channels, "c"), (taps, "r"), (taps, "s"))]
    rows = (wide - dilation * (taps - 1) - 1) // stride + 1

    def element(b, o, y, z):
        c, r, s = axes
        place = padded[b, c, y * stride + r * dilation, z * stride + s * dilation]
        return te.sum(place * f[o, c, r, s], axis=axes)

    y = te.compute((batch, filters, rows, rows), element, name="Y")
    return te.create_prim_func([x, f, y], name="convolution"), rows


@pytest.mark.parametrize(
    ("size", "stride", "dilation", "pad", "dtype"),
    [(7, 1, 1, 1, "float32"), (9, 2, 1, 0, "float32"), (11, 1, 2, 2, "float64"),
     (8, 3, 1, 1, "int32"), (6, 1, 1, 1, "int8"), (4, 1, 1, 0, "float32")],
)  # fmt: skip
def test_im2col_by_reindex(check, size, stride, dilation, pad, dtype):
    """An image read at sums of variables is copied by the variables of the block, one of which are
    the pixels and one what is summed over; and the product is packed, tiled and written back."""
    func, rows = convolution(2, size, stride, dilation, pad, dtype)
    sch = Schedule(func)
    sch.transform_block_layout(
        "Y", f"b, o, y, z, c, r, s: b, o, y * {rows} + z, (c * 3 + r) * 3 + s"
    )
    image = sch.reindex("Y", "padded" if pad else "X", "global")
    filters = sch.reindex("Y", "F", "global")
    sums = sch.reindex("Y", "Y", "local")
    sch.transform_layout(image, 0, "b, p, k: b, p // 8, k, p % 8", 0)
    sch.transform_layout(filters, 0, "o, k: o // 4, k, o % 4", 0)
    if pad:
        sch.compute_inline("padded")
    b, o, p, k = sch.get_loops("Y")
    p_0, p_1 = sch.split(p, [None, 8])
    o_0, o_1 = sch.split(o, [None, 4])
    sch.reorder(b, p_0, o_0, k, o_1, p_1)
    sch.compute_at(image, p_0)
    sch.reverse_compute_at(sums, o_0)
    sch.decompose_reduction("Y", k)
    sch.vectorize(p_1)
    sch.unroll(o_1)
    sch.parallel(p_0)
    check(sch)


def test_pixels_of_a_symbolic_batch():
    """The batch is one with the pixels: rows of several images are in one tile."""
    n = te.var("n")
    sch = Schedule(pointwise(n, (3, 5)))
    sch.transform_block_layout("Y", "b, o, y, z, c: o, (b * 3 + y) * 5 + z, c")
    copy = sch.reindex("Y", "X", "global")
    sums = sch.reindex("Y", "Y", "local")
    o, p, _ = sch.get_loops("Y")
    outer, inner = sch.split(p, [None, 8])
    sch.reorder(outer, o, inner)
    sch.compute_at(copy, outer)
    sch.reverse_compute_at(sums, outer)
    sch.vectorize(inner)
    sch.parallel(outer)
    verify(sch.func)
    kernel = build(sch)
    for size in (0, 1, 3):
        x = np.random.default_rng(1).integers(-3, 4, (size, 5, 3, 5)).astype("float32")
        f = np.random.default_rng(2).integers(-3, 4, (8, 5)).astype("float32")
        expected = reference(sch.definition, x, f)[0]
        np.testing.assert_array_equal(kernel(x, f), expected)
        np.testing.assert_array_equal(interpret(sch.func, x, f)[0], expected)


def test_names_of_loops_that_are_made_of_others_do_not_grow():
    a = te.placeholder((4,) * 8, name="A")
    out = te.compute((4,) * 8, lambda *at: a[at] + 1.0, name="B")
    sch = Schedule(te.create_prim_func([a, out]))
    for _ in range(6):
        loop = sch.fuse(*sch.get_loops("B"))
        assert len(loop) <= LONGEST_NAME + 4 and loop.isidentifier()
        for _ in range(7):
            sch.split(sch.get_loops("B")[0], [None, 4])
    assert str(parse(str(sch.func))) == str(sch.func)
