"""Choices by lanes of another width than what is chosen between."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Expr, all_of, te

N = 3 * 64 + 13
OPERATORS = ("lt", "le", "gt", "ge", "eq", "ne")


def holds(op: str, a: Expr, b: Expr) -> Expr:
    return getattr(operator, op)(a, b)


def numbers(dtype: str) -> np.ndarray:
    """Few different ones, so that many are equal; ends of the type, or NaN and both zeros."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        special, least = [True], 0
    elif kind.kind == "f":
        special, least = [np.nan, np.inf, -np.inf, -0.0, 0.0], -2
    else:
        special = [np.iinfo(kind).min, np.iinfo(kind).max]
        least = -2 if kind.kind == "i" else 0
    found = np.random.default_rng(0).integers(least, 3, 2 * N).astype(dtype)
    found[::7] = np.resize(np.array(special, dtype), len(found[::7]))
    return found.reshape(2, N)


@pytest.mark.parametrize(
    ("compared", "chosen"),
    [("uint8", "int32"), ("int8", "float64"), ("uint8", "uint16"), ("int16", "float32"),
     ("uint16", "int64"), ("uint32", "float64"), ("int32", "uint8"), ("float32", "float64"),
     ("float64", "float32"), ("float64", "int16"), ("int64", "float16"), ("float16", "float64"),
     ("bool", "float32")],
)  # fmt: skip
def test_lanes_are_chosen_by_those_of_another_width(compared: str, chosen: str) -> None:
    x, y = (te.placeholder((N,), compared, name=n) for n in "xy")
    a, b = (te.placeholder((N,), chosen, name=n) for n in "ab")
    ops = ("eq", "ne") if compared == "bool" else OPERATORS

    def choice(cond: Expr, i: Expr) -> Expr:
        return te.if_then_else(cond, a[i], b[i])

    outs = [te.compute((N,), lambda i, op=op: choice(holds(op, x[i], y[i]), i)) for op in ops]
    outs.append(te.compute((N,), lambda i: choice(all_of(x[i] != y[i], x[i] == x[0]), i)))
    if compared == "bool":
        outs.append(te.compute((N,), lambda i: choice(x[i], i)))
    kernel = build(default_schedule(te.create_prim_func([x, y, a, b, *outs], name="f")))
    (p, q), (c, d) = numbers(compared), numbers(chosen)
    with np.errstate(invalid="ignore"):
        conds = [holds(op, p, q) for op in ops] + [(p != q) & (p == p[0])]
    conds += [p] if compared == "bool" else []
    for found, cond in zip(kernel(p, q, c, d), conds, strict=True):
        np.testing.assert_array_equal(found, np.where(cond, c, d))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(np.where(cond, c, d)))


def test_bits_are_added_by_comparisons_of_bytes() -> None:
    """The transform of Zabih and Woodfill (1994): a bit for each neighbour."""
    image = te.placeholder((9, 70), "uint8", name="image")
    places = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]

    def signs(i: Expr, j: Expr) -> Expr:
        bits = [
            te.if_then_else(image[i + m, j + n] < image[i + 1, j + 1], 1 << k, 0)
            for k, (m, n) in enumerate(places)
        ]
        return reduce(operator.or_, [te.const(0, "int32"), *bits])

    func = te.create_prim_func([image, te.compute((7, 68), signs, name="out")], name="f")
    x = np.random.default_rng(0).integers(0, 256, (9, 70)).astype("uint8")
    wanted = sum(
        (x[i : i + 7, j : j + 68] < x[1:8, 1:69]).astype("int32") << k
        for k, (i, j) in enumerate(places)
    )
    np.testing.assert_array_equal(build(default_schedule(func))(x), wanted)
