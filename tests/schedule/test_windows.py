"""Schedules by hand of what has windows and is no product: rows of registers for stencils, sliding
windows for blurs in stages, with vectors, threads and tails."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import interpret, reference, te, verify


def total(terms):
    """Their sum, each with a weight of its own."""
    found = None
    for n, term in enumerate(terms):
        found = term if found is None else found + term * (n + 1)
    return found


def padded(source, reach):
    """`source` with so many zeros on each side of each axis."""
    shape = source.shape

    def element(*i):
        found = [c for p, s in zip(i, shape) for c in (p >= reach, p < s + reach)]
        return te.if_then_else(te.all(*found), source[tuple(p - reach for p in i)], 0)

    return te.compute(tuple(s + 2 * reach for s in shape), element, name="pad")


def stencil(shape, reach=1, dtype="float32"):
    """All neighbours of an element, up to `reach` away along each axis."""
    a = te.placeholder(shape, dtype, name="A")
    pad = padded(a, reach)
    offsets = list(product(range(2 * reach + 1), repeat=len(shape)))

    def element(*i):
        return total(pad[tuple(p + o for p, o in zip(i, offset))] for offset in offsets)

    return te.create_prim_func([a, te.compute(shape, element, name="S")], name="stencil")


def blur(shape, reach=1, dtype="float32"):
    """Neighbours along one axis after the other, the last one first."""
    a = te.placeholder(shape, dtype, name="A")
    source, grown = padded(a, reach), [s + 2 * reach for s in shape]
    for axis in reversed(range(len(shape))):
        grown[axis] = shape[axis]

        def element(*i, axis=axis, source=source):
            steps = range(2 * reach + 1)
            return total(source[(*i[:axis], i[axis] + t, *i[axis + 1 :])] for t in steps)

        source = te.compute(tuple(grown), element, name=f"B{axis}")
    return te.create_prim_func([a, source], name="blur")


def right(sch, sizes=((),), compiled=True):
    """The schedule computes its definition, interpreted and compiled, to the bit."""
    verify(sch.func)
    kernel = build(sch) if compiled else None
    for shape in sizes:
        (source,) = sch.definition.inputs
        shape = shape or source.const_shape
        a = np.random.default_rng(0).integers(0, 4, shape).astype(source.dtype)
        (expected,) = reference(sch.definition, a)
        np.testing.assert_array_equal(interpret(sch.func, a)[0], expected)
        if kernel is not None:
            np.testing.assert_array_equal(kernel(a), expected)


def rows_of_registers(sch, rows, lanes):
    """The four primitives of a stencil: rows of vectors, neighbours of which share their loads."""
    *outer, y, x = sch.get_loops("S")
    y_0, y_1 = sch.split(y, [None, rows])
    x_0, x_1 = sch.split(x, [None, lanes])
    sch.reorder(*outer, y_0, x_0, y_1, x_1)
    sch.vectorize(x_1)
    sch.unroll(y_1)
    sch.parallel((*outer, y_0)[0])
    return y_0


SHAPES = [(24, 32), (23, 37), (1, 40), (7, 1), (5, 11, 19)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("place", ["inside", "ahead", "by rows"])
def test_rows_of_registers(shape, place):
    """Padding is done in the stencil, ahead of it, or for the rows of one iteration."""
    sch = Schedule(stencil(shape))
    if place == "inside":
        sch.compute_inline("pad")
    rows = rows_of_registers(sch, 6, 16)
    if place == "by rows":
        sch.compute_at("pad", rows)
        sch.vectorize(sch.get_loops("pad")[-1])
    right(sch, compiled=shape in SHAPES[1:5:3])


@pytest.mark.parametrize(("reach", "dtype"), [(2, "float64"), (1, "uint8"), (1, "int32")])
def test_rows_of_registers_of_other_types(reach, dtype):
    sch = Schedule(stencil((13, 37), reach, dtype))
    sch.compute_inline("pad")
    rows_of_registers(sch, 4, 16)
    right(sch)


def test_rows_of_registers_of_any_size():
    sch = Schedule(stencil((te.var("n"), te.var("m"))))
    rows_of_registers(sch, 2, 8)
    right(sch, [(23, 37), (1, 1), (0, 5), (12, 48)])


def slide(sch, makers, strip, rows, tile, threads_first=False):
    """Strips in threads; down each, so many rows at a time, makers compute only those that are
    new, in vectors."""
    last = sch.get_blocks()[-1]
    *outer, y, x = sch.get_loops(last)
    y_0, y_1, y_2 = sch.split(y, [None, strip // rows, rows])
    x_0, x_1 = sch.split(x, [None, tile])
    sch.reorder(*outer, y_0, x_0, y_1, y_2, x_1)
    if threads_first:
        sch.parallel(y_0)
    for maker in reversed(makers):
        sch.compute_at(maker, y_1)
    blocks = [last]
    for maker in makers:
        blocks += [maker, sch.rolling_buffer(maker)]
    sch.unroll(y_2)
    for block in blocks:
        sch.vectorize(sch.get_loops(block)[-1])
    if not threads_first:
        sch.parallel(y_0)


@pytest.mark.parametrize("shape", [(24, 32), (23, 37), (5, 3), (9, 16)], ids=str)
@pytest.mark.parametrize(("strip", "rows"), [(8, 1), (8, 4), (6, 3)])
def test_sliding_window_of_a_blur(shape, strip, rows):
    sch = Schedule(blur(shape))
    sch.compute_inline("pad")
    slide(sch, ["B1"], strip, rows, 16)
    right(sch, compiled=shape == (23, 37))


@pytest.mark.parametrize(("reach", "dtype"), [(2, "float64"), (1, "uint8"), (3, "int32")])
def test_sliding_window_of_other_types(reach, dtype):
    sch = Schedule(blur((23, 37), reach, dtype))
    sch.compute_inline("pad")
    slide(sch, ["B1"], 8, 2, 16)
    right(sch)


def test_sliding_window_of_any_size():
    sch = Schedule(blur((te.var("n"), te.var("m"))))
    sch.compute_inline("pad")
    slide(sch, ["B1"], 8, 2, 16, threads_first=True)
    right(sch, [(23, 37), (1, 1), (0, 5), (16, 48), (9, 16)])


def test_two_windows_slide_in_one_loop():
    """The padded rows and what is summed along them."""
    sch = Schedule(blur((23, 37)))
    slide(sch, ["pad", "B1"], 8, 2, 16)
    right(sch)


@pytest.mark.parametrize("shape", [(7, 11, 37), (4, 8, 16), (2, 3, 5)], ids=str)
def test_planes_slide_through_a_volume(shape):
    """Down the first axis by planes, which stay in the cache; their rows are computed in place."""
    sch = Schedule(blur(shape))
    sch.compute_inline("pad")
    z, y, x = sch.get_loops("B0")
    y_0, y_1 = sch.split(y, [None, 4])
    sch.reorder(y_0, z, y_1, x)
    sch.compute_at("B1", z)
    sch.compute_at("B2", z)
    firsts = [sch.rolling_buffer("B2"), sch.rolling_buffer("B1")]
    for block in ("B0", "B1", "B2", *firsts):
        sch.vectorize(sch.get_loops(block)[-1])
    sch.parallel(y_0)
    right(sch, compiled=shape == (7, 11, 37))


def test_rows_and_planes_slide():
    """Within a plane of the first axis, rows of the stage before it slide too."""
    sch = Schedule(blur((6, 11, 19)))
    sch.compute_inline("pad")
    z, _, _ = sch.get_loops("B0")
    sch.compute_at("B1", z)
    plane, row, _ = sch.get_loops("B1")[1:]
    sch.compute_at("B2", row)
    first = sch.rolling_buffer("B2")
    assert sch.get_loops(first)[:2] == [z, plane], "before the rows of each plane"
    for block in ("B0", "B1", "B2"):
        sch.vectorize(sch.get_loops(block)[-1])
    right(sch)
