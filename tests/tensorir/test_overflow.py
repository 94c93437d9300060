"""int64 that is data may be any number: lowering makes no sum of it that overflows anew."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest

from backends import build
from tensorir import te
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Const, Expr, Load, Not, Select, Var, binary, select
from tensorir.passes.simplify import simplify_data
from tensorir.text.printer import format_expr

LOW, HIGH = -(2**63), 2**63 - 1
LARGE = [HIGH // 3, HIGH // 2, HIGH - 1, HIGH]
NUMBERS = [LOW, LOW + 1, LOW // 2, LOW // 3, -7, -2, -1, 0, 1, 2, 3, *LARGE]
DATA = [Load(Buffer(name, (8,), "int64"), (Var("i"),)) for name in "abc"]
VALUES = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max,
    "//": operator.floordiv, "%": operator.mod, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip


class Overflow(Exception):
    """A part of an expression has no value in int64."""


def value(e: Expr, numbers: dict[Expr, int], wraps: bool) -> int:
    """The value of `e`, as a machine finds it, or an Overflow."""
    if isinstance(e, Load):
        return numbers[e]
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Select):
        return value(e.a if value(e.cond, numbers, wraps) else e.b, numbers, wraps)
    if isinstance(e, Not):
        return not value(e.a, numbers, wraps)
    assert isinstance(e, BinOp), format_expr(e)
    found = int(VALUES[e.op](value(e.a, numbers, wraps), value(e.b, numbers, wraps)))
    if LOW <= found <= HIGH:
        return found
    if wraps:
        return (found - LOW) % 2**64 + LOW
    raise Overflow


def expression(rng: random.Random, depth: int) -> Expr:
    inner = lambda: expression(rng, depth - 1)  # noqa: E731
    number = lambda some: Const(rng.choice(some), "int64")  # noqa: E731
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*DATA, number([-6, -1, 0, 1, 2, 5, 12])])
    kind = rng.choice(["sum", "sum", "product", "quotient", "quotient", "extremum", "choice"])
    if kind == "sum":
        return binary(rng.choice("+-"), inner(), inner())
    if kind == "product":
        return binary("*", inner(), number([-3, -1, 2, 4]))
    if kind == "quotient":
        return binary(rng.choice(["//", "%"]), inner(), number([-8, -3, -2, 2, 3, 8]))
    if kind == "extremum":
        return binary(rng.choice(["min", "max"]), inner(), inner())
    return select(condition(rng, depth - 1), inner(), inner())


def condition(rng: random.Random, depth: int) -> Expr:
    compared = [
        binary(rng.choice(["<", "<=", "==", "!="]), expression(rng, depth), expression(rng, depth))
        for _ in range(rng.choice([1, 1, 2]))
    ]
    return compared[0] if len(compared) == 1 else binary(rng.choice(["and", "or"]), *compared)


@pytest.mark.parametrize("seed", range(8))
def test_what_did_not_overflow_does_not(seed):
    rng = random.Random(seed)
    simpler = 0
    for _ in range(60):
        make = rng.choice([expression, expression, condition])
        e = make(rng, rng.choice([1, 2, 2, 3]))
        found = simplify_data(Analyzer({Var("i"): 8}), e)
        simpler += found is not e
        for _ in range(40):
            numbers = {load: rng.choice(NUMBERS) for load in DATA}
            try:
                wanted = value(e, numbers, wraps=False)
            except Overflow:
                continue
            became = f"{format_expr(e)} became {format_expr(found)}: {[*numbers.values()]}"
            assert value(found, numbers, wraps=True) == wanted, became
    assert simpler > 10


@pytest.mark.parametrize(
    "text, of, simple",
    [
        ("in place of itself", lambda a: (a + 3) - 3, lambda a: a),
        ("sums alone", lambda a: a * 4 // 2, lambda a: a * 2),
        ("with bounds", lambda a: te.clip(a, 0, 9) + 1 < 5, lambda a: te.clip(a, 0, 9) < 4),
    ],
)
def test_what_cannot_overflow_is_simplified(text, of, simple):
    analyzer = Analyzer()
    assert simplify_data(analyzer, of(DATA[0])) is analyzer.simplify(simple(DATA[0])), text


def test_kernels_compare_and_divide_the_numbers_that_are_there():
    """In expressions, in places and in conditions of sums; the same in vectors and without."""
    n = 16
    A, B = te.placeholder((n,), "int64", name="A"), te.placeholder((n,), "int64", name="B")
    T = te.placeholder((8,), "int64", name="T")
    near = te.compute((n,), lambda i: A[i] - B[i] < 4, name="near")
    quotient = te.compute((n,), lambda i: (A[i] // -3) + (A[i] % -3), name="quotient")
    place = te.compute((n,), lambda i: T[te.clip((A[i] // 2 - 1) // 3, 0, 7)], name="place")
    k = te.reduce_axis(n, name="k")
    fewer = te.if_then_else(A[k] // 2 < B[k] // 2 - 3, 1, 0)
    count = te.compute((1,), lambda z: te.sum(fewer, axis=k), name="count")
    a = np.resize(np.array([HIGH, HIGH - 1, LOW + 5, 0, LOW], "int64"), n)
    b = np.resize(np.array([HIGH - 1, HIGH, LOW + 3, 5], "int64"), n)
    b = np.where((a < 0) != (b < 0), a, b)  # so that differences do not overflow
    t = np.arange(8)
    found = build(te.create_prim_func([A, B, T, near, quotient, place, count]))(a, b, t)
    wanted = (
        a - b < 4,
        a // -3 + a % -3,
        t[np.clip((a // 2 - 1) // 3, 0, 7)],
        [np.sum(a // 2 < b // 2 - 3)],
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
