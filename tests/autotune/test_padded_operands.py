"""Operands that are padded along axes which no window moves over: lanes that run into the padding
each look for themselves, and plans that have them do so are not the ones of the least time."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from benchmarks.general.code import machine_code
from schedule import Schedule, library
from tensorir import PrimFunc, interpret, ops, te

TARGET = "c -threads=1 -vector_bits=512"


def convolution(h: int, w: int, layout: str, k: int = 1) -> list[te.Tensor]:
    image = (1, 24, h, w) if layout == "NCHW" else (1, h, w, 24)
    filters = (32, 24, k, k) if layout == "NCHW" else (k, k, 24, 32)
    x, f = te.placeholder(image, name="x"), te.placeholder(filters, name="f")
    return [x, f, ops.conv2d(x, f, padding=1, layout=layout)]


def product(rows: int, columns: int) -> list[te.Tensor]:
    a, b = te.placeholder((60, 64), name="a"), te.placeholder((64, 96), name="b")
    wide = ops.pad(b, [(0, 0), (columns, columns)])
    return [a, b, ops.matmul(ops.pad(a, [(rows, rows), (0, 0)]), wide)]


CASES = {
    "channels first": lambda: convolution(28, 28, "NCHW"),
    "channels last": lambda: convolution(28, 28, "NHWC"),
    "short rows": lambda: convolution(30, 9, "NCHW"),
    "windows": lambda: convolution(28, 28, "NCHW", 3),
    "rows of a product": lambda: product(2, 0),
    "columns of a product": lambda: product(0, 3),
    "both of a product": lambda: product(1, 5),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_no_lane_is_gathered(name):
    """A 1x1 convolution with padding took forty times as long: its image was read by places."""
    tensors = CASES[name]()
    func = te.create_prim_func(tensors, name="padded")
    kernel = build(default_schedule(func, TARGET), TARGET)
    assert "gather" not in kernel.source
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(tuple(map(int, t.shape))).astype("float32") for t in tensors[:-1]]
    plain = build(Schedule(func), TARGET)(*arrays)
    np.testing.assert_allclose(kernel(*arrays), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "filled", "counts"),
    [
        ("channels first", (2, 3), {0: 0, 1: 0, 2: 1, 3: 1}),
        ("windows", (2, 3), {0: 0, 1: 0, 2: 1, 3: 1}),
        ("channels last", (1, 2), {0: 0, 1: 1, 2: 1, 3: 0}),
        ("rows of a product", (0,), {0: 1, 1: 0}),
    ],
)
def test_padded_dimensions_are_known(name, filled, counts):
    sch = Schedule(te.create_prim_func(CASES[name](), name="padded"))
    pad, block = sch.get_blocks()[0], sch.get_blocks()[-1]
    c = library.find_contraction(sch, block, padding=[pad], merged=False)
    (at,) = [n for n, o in enumerate(c.operands) if o.pad == pad]
    assert c.operands[at].filled == filled
    by_place = {c.axes[n].digits[0].place: c.in_padding(n, at) for n in c.spatial}
    assert {n: by_place[n] for n in counts if n in by_place} == {
        n: count for n, count in counts.items() if n in by_place
    }


WINDOWS = {
    "plain": ((2, 16, 20, 20), 3, 3, 1, 1),
    "stride": ((2, 16, 20, 20), 3, 3, 2, 1),
    "dilation": ((2, 16, 20, 20), 3, 3, 1, 2),
    "rows alone": ((2, 16, 2, 200), 1, 5, 1, 1),
}
"""The image, rows and columns of its windows, their stride and dilation."""

KINDS = ("convolution", "depthwise", "maxima")
SPELLED = ("inside", "outside", "clipped")


def windows(name: str, kind: str, spelled: str, apart: bool) -> PrimFunc:
    """Sums or maxima over windows of an image whose padding is a stage `apart`, or in the terms."""
    (n, c, h, w), rows, columns, step, far = WINDOWS[name]
    over, down = rows // 2 * far, columns // 2 * far
    x, f = te.placeholder((n, c, h, w), name="x"), te.placeholder((24, c, rows, columns), name="f")
    fill = float("-inf") if kind == "maxima" else 0.0

    def read(b, k, y, z):
        inside = [y >= over, y < h + over, z >= down, z < w + down]
        at = (y - over, z - down)
        if spelled == "clipped":
            at = tuple(te.max(te.min(i, m - 1), 0) for i, m in zip(at, (h, w)))
        if spelled == "outside":
            away = te.any(y < over, y >= h + over, z < down, z >= w + down)
            return te.if_then_else(away, fill, x[(b, k, *at)])
        return te.if_then_else(te.all(*inside), x[(b, k, *at)], fill)

    high, wide = -(-h // step), -(-w // step)
    i, u, v = te.reduce_axis(c, "i"), te.reduce_axis(rows, "u"), te.reduce_axis(columns, "v")
    sides = ((high, rows), (wide, columns))
    whole = (n, c, *((m - 1) * step + (t - 1) * far + 1 for m, t in sides))
    made = te.compute(whole, read, name="padded") if apart else None

    def term(b, k, y, z):
        at = (b, k, y * step + u * far, z * step + v * far)
        return made[at] if made is not None else read(*at)

    def value(b, k, y, z):
        if kind == "convolution":
            return te.sum(term(b, i, y, z) * f[k, i, u, v], axis=[i, u, v])
        if kind == "depthwise":
            return te.sum(term(b, k, y, z) * f[k, 0, u, v], axis=[u, v])
        return te.max(term(b, k, y, z), axis=[u, v])

    out = te.compute((n, 24 if kind == "convolution" else c, high, wide), value, name="out")
    return te.create_prim_func([x, f, out] if kind != "maxima" else [x, out], name="windows")


@pytest.mark.parametrize(
    ("name", "kind", "spelled"),
    [
        (name, kind, SPELLED[(at + n) % len(SPELLED)])
        for at, name in enumerate(WINDOWS)
        for n, kind in enumerate(KINDS)
    ],
)
def test_padding_in_the_terms_is_scheduled_as_a_stage_of_padding(name, kind, spelled):
    """Of two convolutions in one program that were written so each term asked for its place, which
    took 1.6 times as long."""
    func, apart = (windows(name, kind, spelled, apart) for apart in (False, True))
    one, other = (default_schedule(f, TARGET) for f in (func, apart))
    kernel = build(one, TARGET)
    assert machine_code(kernel) == machine_code(build(other, TARGET))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(b.const_shape).astype("float32") for b in func.inputs]
    plain = build(Schedule(func), TARGET)(*arrays)
    np.testing.assert_allclose(kernel(*arrays), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["float32", "int32", "int16"])
def test_padding_along_the_terms_alone_has_a_default(kind: str) -> None:
    """As of channels that are filled up: no lane runs into it."""
    x, f = te.placeholder((9, 9, 3), kind, name="x"), te.placeholder((3, 3, 4, 16), kind, name="f")
    zero = te.const(0, kind)
    wide = te.compute((9, 9, 4), lambda i, j, c: te.if_then_else(c < 3, x[i, j, c], zero), "wide")
    r, s, c = (te.reduce_axis(n, name) for n, name in ((3, "r"), (3, "s"), (4, "c")))
    y = te.compute(
        (7, 7, 16), lambda i, j, o: te.sum(wide[i + r, j + s, c] * f[r, s, c, o], axis=[r, s, c])
    )
    func = te.create_prim_func([x, f, y])
    arrays = [np.arange(np.prod(p.const_shape)).reshape(p.const_shape) % 7 for p in func.inputs]
    arrays = [a.astype(kind) for a in arrays]
    (wanted,) = interpret(func, *arrays)
    np.testing.assert_array_equal(build(default_schedule(func, "c -threads=1"))(*arrays), wanted)
