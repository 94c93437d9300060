"""Short rows of results whose elements are made in ways of their own, each for a vector of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Expr, PrimFunc, te

Fields = Callable[[list[Expr]], list[Expr]]
TARGET = "c -threads=2 -vector_bits={}"


def records(shape: tuple[int, ...], read: int, dtype: str, fields: Fields) -> PrimFunc:
    """A result of so many fields for each of the records of `x`, chosen by the last axis."""
    x = te.placeholder((*shape, read), dtype, name="x")

    def element(*at: Expr) -> Expr:
        *record, field = at
        *before, last = fields([x[(*record, n)] for n in range(read)])
        for n in reversed(range(len(before))):
            last = te.if_then_else(field == n, before[n], last)
        return last

    count = len(fields([te.const(1, dtype)] * read))
    return te.create_prim_func([x, te.compute((*shape, count), element, name="out")], name="made")


def rotated(p: list[Expr]) -> list[Expr]:
    """Two complex numbers, multiplied."""
    a, b, c, d = p
    return [a * c - b * d, a * d + b * c]


def quaternions(p: list[Expr]) -> list[Expr]:
    """The square of a quaternion."""
    a, b, c, d = p
    return [a * a - b * b - c * c - d * d, 2 * a * b, 2 * a * c, 2 * a * d]


def crossed(p: list[Expr]) -> list[Expr]:
    """With itself, moved on by one."""
    return [p[n] * p[n] - p[n - 1] * p[n - 2] + p[n] for n in range(3)]


def sums(p: list[Expr]) -> list[Expr]:
    """Five of two numbers."""
    a, b = p
    return [a + b * b, a - b * a, a * b * b - b, a * a + a, b * b * b + 1]


def picks(p: list[Expr]) -> list[Expr]:
    return [p[1] + 1, p[0], p[2] + 3]


CASES = [
    ((1001,), 4, rotated), ((1001,), 4, quaternions), ((37, 29), 3, crossed), ((1001,), 2, sums),
    ((5,), 3, crossed), ((3, 7, 50), 4, quaternions),
]  # fmt: skip


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize(("shape", "read", "fields"), CASES)
def test_fields_of_records_are_those_of_numpy(shape, read, fields, bits):
    for dtype in ("float32", "int16", "float64"):
        func = records(shape, read, dtype, fields)
        x = np.random.default_rng(0).integers(-5, 6, (*shape, read)).astype(dtype)
        wanted = np.stack(fields([x[..., n] for n in range(read)]), -1)
        found = build(default_schedule(func, TARGET.format(bits)))(x)
        np.testing.assert_array_equal(found, wanted.astype(dtype))


def is_turned(func: PrimFunc) -> bool:
    """Whether results are made elsewhere, and turned on the way to their place."""
    trace = default_schedule(func, TARGET.format(512)).trace
    return "reindex" in {step.name for step in trace.instructions}


@pytest.mark.parametrize("fields", [quaternions, crossed, sums])
def test_they_are_made_for_vectors_of_records_where_lanes_would_go_all_ways(fields):
    read = {quaternions: 4, crossed: 3, sums: 2}[fields]
    assert is_turned(records((1000,), read, "float32", fields))


def test_lanes_go_all_ways_where_these_are_short():
    assert not is_turned(records((1000,), 3, "float32", picks))
    x, shift = te.placeholder((1000, 7), name="x"), te.placeholder((7,), name="shift")
    moved = te.compute((1000, 7), lambda i, j: x[i, j] * 2.0 + shift[j], name="out")
    assert not is_turned(te.create_prim_func([x, shift, moved], name="moved"))


def test_what_is_looked_up_by_parts_of_numbers_is_looked_up_for_vectors():
    """Four digits of 24 bits: lanes of four took seven times as long (one thread of a Zen 4)."""
    x, digits = (
        te.placeholder((700, 3), "uint8", name="x"),
        te.placeholder((64,), "uint8", name="d"),
    )

    def digit(i: Expr, n: Expr) -> Expr:
        a, b, c = (x[i, k].astype("int32") for k in range(3))
        whole = (a << te.const(16, "int32")) | (b << te.const(8, "int32")) | c
        return digits[(whole >> (18 - n.astype("int32") * 6)) & te.const(63, "int32")]

    func = te.create_prim_func([x, digits, te.compute((700, 4), digit, name="out")], name="f")
    assert is_turned(func)
    random = np.random.default_rng(0)
    p, q = random.integers(0, 256, (700, 3)).astype("uint8"), random.permutation(64).astype("uint8")
    whole = (p.astype(int) << [16, 8, 0]).sum(1)
    wanted = np.stack([q[whole >> 18 - 6 * n & 63] for n in range(4)], 1)
    np.testing.assert_array_equal(build(default_schedule(func, TARGET.format(512)))(p, q), wanted)


def test_colours_of_places_alone_are_right():
    def colour(i: Expr, c: Expr) -> Expr:
        at = i.astype("float32")
        fields = at * at - 3.0, at * 2.0 + 1.0, (at - 7.0) * (at + 2.0)
        return te.if_then_else(c == 0, fields[0], te.if_then_else(c == 1, fields[1], fields[2]))

    func = te.create_prim_func([te.compute((333, 3), colour, name="out")], name="f")
    at = np.arange(333.0)
    wanted = np.stack([at * at - 3, at * 2 + 1, (at - 7) * (at + 2)], 1)
    np.testing.assert_array_equal(build(default_schedule(func, TARGET.format(512)))(), wanted)
