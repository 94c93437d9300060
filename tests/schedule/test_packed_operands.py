"""What a contraction says can be packed is packed, however its operands are read."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from backends import build
from schedule import Schedule, library
from schedule.library.contraction.copies import pack
from schedule.library.contraction.plan import Pack
from tensorir import ForKind, body_loads, interpret, te, variables, verify

READS = {
    "rows": lambda a, i, j, k: a[i, k],
    "patches": lambda a, i, j, k: a[i, j * 3 + k],
    "turned": lambda a, i, j, k: a[k, j * 4 + i],
    "flat": lambda a, i, j, k: a[i // 2, (i % 2 * 2 + j) * 3 + k],
    "every_other": lambda a, i, j, k: a[i, 2 * j + 1],
    "behind": lambda a, i, j, k: a[i + 1, k + 1],
    "windows": lambda a, i, j, k: a[i + k, j],
    "groups": lambda a, i, j, k: a[j, i // 2 * 3 + k],
    "backwards": lambda a, i, j, k: a[3 - i, k],
    "parts": lambda a, i, j, k: a[j, j * 4 + i],
    "parts_first": lambda a, i, j, k: a[j * 3 + k, j],
    "twice": lambda a, i, j, k: a[i, i],
    "rests_beside": lambda a, i, j, k: a[i, i % 2],
    "halves_beside": lambda a, i, j, k: a[i // 2, i],
    "overlapping": lambda a, i, j, k: a[(i + 4 * j) // 2, (i + 4 * j) % 6],
    "along": lambda a, i, j, k: a[i, i * 3 + k],
    "across": lambda a, i, j, k: a[j, j + k],
    "halves": lambda a, i, j, k: a[k // 2, j * 2 + k],
    "halves_twice": lambda a, i, j, k: a[j * 2 + k // 2, j],
}
"""Ways to read a matrix of 7 rows and 12 columns at i < 4, j < 2, k < 3."""


def reading(how, kind="float32"):
    a, b = te.placeholder((7, 12), kind, name="A"), te.placeholder((3, 2), kind, name="B")
    k = te.reduce_axis(3, name="k")
    c = te.compute(
        (4, 2), lambda i, j: te.sum(READS[how](a, i, j, k) * b[k, j], axis=k), name="C"
    )
    return te.create_prim_func([a, b, c])


def summed(how):
    """The sum of all that is read: neighbours in memory are one axis."""
    a = te.placeholder((7, 12), name="A")
    axes = [te.reduce_axis(n, name=name) for n, name in ((4, "i"), (2, "j"), (3, "k"))]
    c = te.compute((1,), lambda _: te.sum(READS[how](a, *axes), axis=axes), name="C")
    return te.create_prim_func([a, c])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [reading, summed], ids=lambda make: make.__name__)
@pytest.mark.parametrize("how", READS)
def test_what_can_be_packed_is_packed(make, how):
    """Of places two apart, or beside a part of another variable, it was said and then refused."""
    func = make(how)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    expected = interpret(func, *inputs)[0]
    sch = Schedule(func)
    for flags in ({}, {"merged": False}, {"windows": False}):
        c = library.find_contraction(sch, "C", **flags)
        for n, _ in enumerate(c.operands):
            for axis, found in enumerate(c.axes):
                if c.can_pack(n, axis):
                    packed = sch.copy()
                    pack(packed, c, Pack(n, axis, min(2, found.extent)), c.written, False)
                    verify(packed.func)
                    np.testing.assert_array_equal(interpret(packed.func, *inputs)[0], expected)


WHOLE = {"rows": (4, 3), "patches": (4, 6), "turned": (3, 8), "flat": (2, 12)}
"""Matrices of which all is read."""


def among_units(how, places):
    """`reading` of a matrix whose dimensions are these of twelve, the others of one value."""
    shape = [1] * 12
    shape[places[0]], shape[places[1]] = WHOLE.get(how, (7, 12))
    a, b = te.placeholder(shape, name="A"), te.placeholder((3, 2), name="B")
    k = te.reduce_axis(3, name="k")

    class Matrix:
        def __getitem__(self, at):
            return a[tuple(dict(zip(places, at)).get(n, 0) for n in range(12))]

    c = te.compute(
        (4, 2), lambda i, j: te.sum(READS[how](Matrix(), i, j, k) * b[k, j], axis=k), name="C"
    )
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize("how", READS)
def test_dimensions_are_told_apart_whatever_their_number(how):
    """Copies have padding where they have it, though the name of one begins with that of another:
    d1 and d11."""

    def padding(func):
        sch, found = Schedule(func), []
        c = library.find_contraction(sch, "C")
        (a,) = (n for n, operand in enumerate(c.operands) if operand.buffer == "A")
        for axis, known in enumerate(c.axes):
            if c.can_pack(a, axis):
                packed = sch.copy()
                pack(packed, c, Pack(a, axis, min(2, known.extent)), c.written, False)
                steps = [step.as_json() for step in packed.trace.instructions]
                found += [args["pad_value"] for name, args, _ in steps if "layout" in name]
        return found

    plain = padding(among_units(how, (0, 5)))
    assert padding(among_units(how, (1, 11))) == plain and (how != "rows" or None in plain)


@pytest.mark.parametrize(
    "how, axes",
    [("rows", {4, 3}), ("patches", {4, 2, 3}), ("behind", set()), ("every_other", {4})],
)
def test_axes_that_can_be_packed(how, axes):
    """By their extents."""
    sch = Schedule(reading(how))
    c = library.find_contraction(sch, "C")
    (n,) = [n for n, o in enumerate(c.operands) if o.buffer == "A"]
    assert {axis.extent for m, axis in enumerate(c.axes) if c.can_pack(n, m)} == axes


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("order", list(permutations("bjk")), ids="".join)
def test_panels_are_written_in_their_order_and_rows_are_read_in_theirs(order, width):
    """Wherever the axis is in the operand, and whether one panel holds all of it: copies of such
    panels went over the operand in its own order, and wrote single elements far apart."""
    sizes = {"b": 3, "j": 32, "k": 40}
    a = te.placeholder((3, 20, 40), name="A")
    w = te.placeholder([sizes[name] for name in order], name="W")
    k = te.reduce_axis(40, name="k")

    def term(b, i, j):
        at = {"b": b, "j": j, "k": k}
        return a[b, i, k] * w[tuple(at[name] for name in order)]

    out = te.compute((3, 20, 32), lambda b, i, j: te.sum(term(b, i, j), axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, w, out]))
    c = library.find_contraction(sch, "C")
    (n,) = [n for n, o in enumerate(c.operands) if o.buffer == "W"]
    (axis,) = [m for m, found in enumerate(c.axes) if found.extent == 32]
    copier = pack(sch, c, Pack(n, axis, width), c.written, True)
    *around, row, lane = sch.get_loops(copier)
    node = sch.state.block(copier)
    (load,) = body_loads(node)
    moved = {it.var: {v.name for v in variables(it.binding)} for it in node.iters}

    def moves(loop, index):
        return any(loop in moved[var] for var in variables(index))

    assert sch.state.loop(lane).kind == ForKind.VECTORIZED
    assert moves(lane, node.body.indices[-1])
    assert moves(lane if order[-1] == "j" else row, load.indices[-1])
    assert sch.state.loop(around[0]).kind == ForKind.PARALLEL


@pytest.mark.parametrize("kind", ["float32", "float64", "int8"])
@pytest.mark.parametrize("width", [4, 6, 8, 12, 24, 32, 48])
def test_no_vector_of_a_copy_is_stored_into_two_panels(width, kind):
    """Lanes were those of whole vectors, whatever the panels: of eight rows each element was stored
    by itself, and a product that reads them took twice as long."""
    a, w = te.placeholder((96, 80), kind, name="A"), te.placeholder((80, 64), kind, name="W")
    k = te.reduce_axis(80, name="k")
    out = te.compute((96, 64), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, w, out]))
    c = library.find_contraction(sch, "C")
    (n,) = [n for n, o in enumerate(c.operands) if o.buffer == "A"]
    (axis,) = [m for m, found in enumerate(c.axes) if found.extent == 96]
    copier = pack(sch, c, Pack(n, axis, width), c.written, True)
    lanes = sch.state.loop(sch.get_loops(copier)[-1])
    assert lanes.kind == ForKind.VECTORIZED and width % lanes.const_extent == 0
    assert "scatter" not in build(sch, "c").source


@pytest.mark.parametrize("size", [lambda n: n, lambda n: 2 * n + 1, lambda n: (n + 3) // 4])
@pytest.mark.parametrize("rows", [1, 3])
def test_axes_whose_size_is_computed_can_be_packed(rows, size):
    """What is packed by parts of such a size is stored at no variable of the copy."""
    n = te.var("n")
    a, b = te.placeholder((rows, size(n)), name="A"), te.placeholder((n,), name="B")
    k = te.reduce_axis(rows, name="k")
    c = te.compute((size(n),), lambda i: te.sum(a[k, i] * 2.0, axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    found = library.find_contraction(sch, "C")
    (axis,) = found.spatial
    (n,) = [n for n, o in enumerate(found.operands) if o.buffer == "A"]
    pack(sch, found, Pack(n, axis, 4), found.written, True)
    verify(sch.func)
    x, y = np.arange(rows * size(9), dtype="float32").reshape(rows, -1), np.ones(9, "float32")
    np.testing.assert_array_equal(interpret(sch.func, x, y)[0], 2 * x.sum(0))
