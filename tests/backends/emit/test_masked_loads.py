"""Vectors of which some lanes are loaded: padding that is nowhere in memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from guarded import Guarded

from backends import build, resolve
from schedule import Schedule, library
from tensorir import PrimFunc, masked_bits, ops, reference, te
from tensorir.passes import simplify, vectorize
from tensorir.text.parser import parse
from tests.backends.by_gcc import made_by_gcc

HEAD = "@prim_func\ndef f(A: f32[1000], C: f32[1000], N: f32[n]):\n    "


def vectors(body: str, masks: bool = True) -> str:
    lines = body.strip("\n").replace("\n", "\n    ")
    bits = (8, 16, 32, 64) if masks else ()
    return str(simplify(vectorize(parse(HEAD + lines), 512, bits)))


def padded(index: str, extent: int = 16) -> str:
    inside = f"0 <= {index} and {index} < 14"
    return f"for j in vectorized({extent}):\n    C[j] = select({inside}, A[{index}], 0.0)"


def test_padding_is_a_load_of_some_lanes() -> None:
    text = vectors(padded("j - 1"))
    assert "A[ramp(-1, 1, 16)]" in text
    assert "broadcast(1, 16) <= ramp(0, 1, 16) and ramp(0, 1, 16) < broadcast(15, 16)" in text
    assert "max" in vectors(padded("j - 1"), masks=False)  # gathered from elements that exist


def test_all_lanes_or_none_need_no_mask() -> None:
    assert "C[ramp(0, 1, 8)] = A[ramp(0, 1, 8)]" in vectors(padded("j", 8))
    assert "C[ramp(0, 1, 16)] = broadcast(0.0, 16)" in vectors(padded("j + 20"))


def test_every_other_element_is_two_vectors() -> None:
    text = vectors(padded("j * 2 - 1"))
    assert "shuffle(" in text and "A[ramp(-1, 1, 16)]" in text and "A[ramp(15, 1, 16)]" not in text


def test_lanes_that_are_known_at_run_time_only_need_a_mask_too() -> None:
    text = vectors(padded("j - n"))
    assert "broadcast(n, 16) <= ramp(0, 1, 16)" in text and "A[ramp(0 - n, 1, 16)]" in text


def test_what_is_computed_of_an_element_is_computed_of_a_load_of_some_lanes() -> None:
    text = vectors(padded("j - 1").replace("A[j - 1]", "A[j - 1] * A[j - 2] + A[j]"))
    assert text.count("ramp(0, 1, 16) < broadcast(15, 16)") == 2 and "min(" not in text


def test_elements_that_lie_apart_are_gathered() -> None:
    assert "max(" in vectors(padded("j * 3 - 1"))


def inlined(dtype: str, width: int, stride: int) -> PrimFunc:
    """A window of seven over padded rows, the padding computed where it is read."""
    x = te.placeholder((3, width), dtype, name="x")
    padding = ops.pad(x, ((1, 1), (3, 3)), value=te.const(0, dtype).value, name="padding")
    r, s = te.reduce_axis(3, name="r"), te.reduce_axis(7, name="s")
    shape = (3, (width - 1) // stride + 1)
    out = te.compute(
        shape, lambda i, j: te.sum(padding[i + r, j * stride + s] * 2, axis=[r, s]), name="out"
    )
    return te.create_prim_func([x, out], name="windows")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [1, 5, 32, 57])
def test_padding_that_is_inlined_is_loaded_in_loops_too(width, stride, dtype, cache) -> None:
    """The loops over the window stay loops, so which lanes lie inside is known at run time."""
    func = inlined(dtype, width, stride)
    sch = Schedule(func)
    sch.compute_inline("padding")
    i, j, r, s = sch.get_loops("out")
    outer, lanes = sch.split(j, [None, 16])
    sch.reorder(i, outer, r, s, lanes)
    sch.vectorize(lanes)
    target = resolve("c -threads=1")
    kernel = build(sch, target, cache=cache)
    if {8, 16, 32, 64}.issubset(masked_bits(target)) and width > 5 and stride == 1:
        assert "gather" not in kernel.source and "load_first" in kernel.source
    a = Guarded().array((3, width), dtype)
    a[:] = np.arange(a.size).reshape(a.shape)
    np.testing.assert_array_equal(kernel(a), reference(func, a)[0])


@pytest.mark.parametrize("none", [1.0, -0.0, float("-inf")])
def test_padding_may_be_any_constant(none, cache) -> None:
    text = vectors(padded("j - 1").replace("0.0)", f"{none})".replace("-inf", "-1.0")))
    assert "ramp(0, 1, 16) < broadcast(15, 16)" in text
    x = te.placeholder((14,), name="x")
    y = ops.pad(x, ((1, 1),), value=none)
    sch = Schedule(te.create_prim_func([x, y], name="padded"))
    sch.vectorize(sch.get_loops("pad")[0])
    a = Guarded().array((14,), "float32")
    a[:] = np.arange(14)
    want = np.concatenate([[none], a, [none]]).astype(np.float32)
    found = build(sch, "c -vector_bits=512", cache=cache)(a)
    assert found.tobytes() == want.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [1, 7, 14, 16, 17, 40])
def test_nothing_outside_of_the_image_is_touched(width, stride, dtype, cache) -> None:
    """The image ends where memory ends; NaN and infinity stay with the windows that read them."""
    guarded = Guarded()
    x, w = guarded.array((1, 2, 5, width), dtype), np.ones((2, 1, 3, 3), dtype)
    x[:] = np.arange(x.size).reshape(x.shape)
    x[0, 0, 0, 0], x[0, 1, 4, width - 1] = np.nan, np.inf
    image, filters = te.placeholder(x.shape, dtype, name="x"), te.placeholder(w.shape, dtype)
    out = ops.depthwise_conv2d(image, filters, padding=1, stride=stride)
    func = te.create_prim_func([image, filters, out], name="conv")
    target = resolve("c -threads=1 -vector_bits=512")
    sch = in_place(func, 16 if dtype == "float32" else 8)
    want = ops.OPERATORS["depthwise_conv2d"].reference(x, w, padding=1, stride=stride)
    np.testing.assert_array_equal(build(sch, target, cache=cache)(x, w), want)


def in_place(func: PrimFunc, lanes: int) -> Schedule:
    """A depthwise convolution that reads its image where it is, a vector of each row at a time."""
    sch = Schedule(func)
    padding, sums = sch.get_blocks()
    c = library.find_contraction(sch, sums, padding=[padding])
    rows, lane = c.spatial[-2:]
    sizes = [c.axes[n].extent or 1 for n in c.spatial]
    tile = tuple(lanes if n == lane else 2 if n == rows else 1 for n in c.spatial)
    plan = library.NestPlan(
        lane, lanes, tile, tuple(sizes), c.written, c.spatial, (), "inline", "rows", False
    )
    library.make_nest(sch, c, plan)
    return sch


def test_padding_of_a_local_array_has_no_pointer_outside_of_it(cache, capfd) -> None:
    """C has none, gcc warns of them, and concludes what it likes."""
    x, n = te.placeholder((40,), name="x"), te.var("n")
    twice = te.compute((40,), lambda i: x[i] * 2.0, name="twice")

    def moved(by):
        inside = lambda i: te.all(i - by >= 0, i - by < 40)  # noqa: E731
        return lambda i: te.if_then_else(inside(i), twice[i - by], -1.0)

    outs = [te.compute((64,), moved(by), name=f"y{k}") for k, by in enumerate((3, -3, 24, n))]
    sch = Schedule(te.create_prim_func([x, n, *outs], name="moved"))
    for out in outs:
        sch.vectorize(sch.get_loops(out.name)[0])
    text = build(sch, "c -threads=1", cache=cache).source
    flags = "-O2 -std=gnu11 -Wall -Werror -Wno-psabi -march=native -fsanitize=bounds -fPIC -shared"
    function = ctypes.CDLL(str(made_by_gcc(cache, text, *flags.split()))).moved
    given, found = np.arange(40, dtype="float32"), np.zeros((4, 64), "float32")
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (given, *found)]
    for by in (-70, -5, 0, 17, 63, 70):
        assert function(*pointers, ctypes.c_int64(by)) == 0
        for got, k in zip(found, (3, -3, 24, by)):
            at = np.arange(64) - k
            inside = (0 <= at) & (at < 40)
            np.testing.assert_array_equal(got, np.where(inside, 2.0 * at, -1.0))
    assert "runtime error" not in capfd.readouterr().err
