"""Operators that only move elements are as good for bool as for uint8, and keep 0 and 1."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import ops, te

TARGETS = ["c", "c -march=haswell", "c -threads=1"]
MOVES = {
    "transpose": (lambda x: ops.transpose(x), lambda x: x.T),
    "flip": (lambda x: ops.flip(x, axis=1), lambda x: x[:, ::-1]),
    "concat": (lambda x: ops.concat([x, x], axis=1), lambda x: np.concatenate([x, x], axis=1)),
    "tile": (lambda x: ops.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3))),
    "pad": (
        lambda x: ops.pad(x, ((1, 2), (3, 1)), value=_one(x)),
        lambda x: np.pad(x, ((1, 2), (3, 1)), constant_values=1),
    ),
    "broadcast": (
        lambda x: ops.broadcast_to(x, (3, *(int(s.value) for s in x.shape))),
        lambda x: np.broadcast_to(x, (3, *x.shape)),
    ),
    "every other": (
        lambda x: ops.slice(x, (0, 0), tuple(int(s.value) for s in x.shape), (1, 2)),
        lambda x: x[:, ::2],
    ),
}
SHAPES = [(0, 3), (1, 1), (1, 67), (61, 1), (37, 53), (67, 130)]


def _one(x: te.Tensor) -> object:
    return True if x.dtype == "bool" else 1


def kernel_of(move, shape, dtype, target="c"):
    x = te.placeholder(shape, dtype, name="X")
    return build(default_schedule(te.create_prim_func([x, MOVES[move][0](x)]), target), target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("move", ["transpose", "pad", "every other"])
def test_values_of_any_shape(move, shape, target):
    data = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    found = kernel_of(move, shape, "bool", target)(data)
    assert found.dtype == bool and set(found.view(np.uint8).ravel()) <= {0, 1}
    np.testing.assert_array_equal(found, MOVES[move][1](data))


def text_of(kernel):
    """The C text without comments, names of functions, and the minimum with 1 of what is stored,
    which makes True of any byte of the caller but 0, with the signed types of its choices."""
    text = re.sub(r"/\*.*?\*/|typedef (?:i8|__INT8_TYPE__) [^;]*;\n", "", kernel.source, flags=re.S)
    helper = re.compile(r"static inline \w+ (min|splat)_u8")
    parts = [part.strip() for part in text.split("\n\n") if not helper.match(part.strip())]
    return re.sub(r"min_u8\w*\((.*), (1|splat_\w+\(1\))\)", r"\1", "\n".join(parts))


@pytest.mark.parametrize("move", MOVES)
def test_the_text_is_that_of_bytes(move):
    bools, bytes_ = (kernel_of(move, (67, 130), dtype) for dtype in ("bool", "uint8"))
    assert text_of(bools) == text_of(bytes_)
    data = np.random.default_rng(0).integers(0, 2, (67, 130)).astype(bool)
    np.testing.assert_array_equal(bools(data), MOVES[move][1](data))


def test_transposes_are_made_of_shuffles_of_vectors():
    text = kernel_of("transpose", (64, 64), "bool").source
    assert re.search(r"shuffle_u8x\d+", text) and "!= 0" not in text


def test_symbolic_sizes():
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((n, m), "bool", name="X")
    target = "c -vector_bits=256"  # a tile of 64 rows, all that may be left, takes gcc 7 seconds
    kernel = build(default_schedule(te.create_prim_func([x, ops.transpose(x)]), target), target)
    for shape in SHAPES:
        data = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
        np.testing.assert_array_equal(kernel(data), data.T)


def test_rows_taken_by_index():
    x, i = te.placeholder((7, 67), "bool", name="X"), te.placeholder((5,), "int64", name="I")
    kernel = build(default_schedule(te.create_prim_func([x, i, ops.take(x, i, axis=0)])))
    data = np.random.default_rng(0).integers(0, 2, (7, 67)).astype(bool)
    at = np.array([6, 0, 3, 3, 1])
    np.testing.assert_array_equal(kernel(data, at), data[at])


def test_moved_bools_are_conditions_too():
    """A stage that moves, and one that computes with what it moved."""
    m, x = te.placeholder((13, 67), "bool", name="M"), te.placeholder((67, 13), name="X")
    turned = ops.transpose(m)
    out = ops.where(ops.logical_not(turned), x, 0.0)
    kernel = build(default_schedule(te.create_prim_func([m, x, turned, out])))
    rng = np.random.default_rng(0)
    mask, data = rng.integers(0, 2, (13, 67)).astype(bool), rng.random((67, 13), np.float32)
    found = kernel(mask, data)
    np.testing.assert_array_equal(found[0], mask.T)
    np.testing.assert_array_equal(found[1], np.where(~mask.T, data, 0))
