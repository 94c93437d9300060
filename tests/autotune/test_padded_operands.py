"""Operands that are padded along axes which no window moves over: lanes that run into the padding
each look for themselves, and plans that have them do so are not the ones of the least time."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from schedule import Schedule, library
from tensorir import ops, te

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
