"""Regions: must-find intervals, and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer, Interval, covers, intersect_with, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import Cast, Expr, Load, Var, all_of, const, maximum, minimum, select
from tensorir.text.printer import format_expr
from tests.tensorir.arith_oracle import box, evaluate, index_exprs

I, J, R, N, M = (Var(name) for name in ("i", "j", "r", "n", "m"))  # noqa: E741
I0, I1, F0, F1 = (Var(name) for name in ("i_0", "i_1", "f_0", "f_1"))
IDX = Buffer("idx", (64,), "uint8")
WIDE = Buffer("wide", (64,), "int64")


def shown(interval: Interval | None) -> tuple[str, str] | None:
    return None if interval is None else (format_expr(interval.low), format_expr(interval.extent))


OUTER = {I0: 16, F0: 64, I: 12}

RELAXED = [
    (I0 * 8 + I1, {I1: 8}, ("i_0 * 8", "8")),
    (I0 * 8 - I1, {I1: 8}, ("i_0 * 8 - 7", "8")),
    (I1 * 2, {I1: 4}, ("0", "7")),
    (I0, {I1: 8}, ("i_0", "1")),
    (I0 * 8 + I1 + R - 1, {I1: 8, R: 3}, ("i_0 * 8 - 1", "10")),
    (I0 * 8 + I1 * 2 + R, {I1: 4, R: 3}, ("i_0 * 8", "9")),
    ((I0 * 8 + I1) // 4, {I1: 8}, ("i_0 * 2", "2")),
    ((I0 * 6 + I1) // 4, {I1: 6}, ("i_0 * 3 // 2", "2")),
    ((I0 * 8 + I1) // 16, {I1: 8}, ("i_0 // 2", "1")),
    ((F0 * 16 + F1) % 32, {F1: 16}, ("f_0 % 2 * 16", "16")),
    ((F0 * 16 + F1) // 32, {F1: 16}, ("f_0 // 2", "1")),
    ((F0 * 24 + F1) % 32, {F1: 24}, ("0", "32")),
    ((F0 * 32 + F1) % 32, {F1: 8}, ("0", "8")),
    ((I0 * 6 + I1) // 4, {I1: 7}, ("i_0 * 3 // 2", "3")),
    ((F0 * 8 + F1 + 3) // 8, {F1: 8}, ("f_0", "2")),
    (minimum(I + R, N - 1), {R: 3}, ("min(i, n - 1)", "3")),
    (minimum(maximum(I + R - 1, 0), 11), {R: 3}, ("max(i - 1, 0)", "3")),
    (maximum(I + R - 1, 0), {R: 3}, ("max(i - 1, 0)", "3")),
    (select(I < 4, I + R, I + R + 2), {R: 3}, ("i", "5")),
    (I * N + J, {J: N}, ("i * n", "n")),
    (I * N + J, {J: 4}, ("i * n", "4")),
    (I * 4 + J, {J: minimum(4, 46 - I * 4)}, ("i * 4", "4")),
    (J, {J: N}, ("0", "n")),
    (J * M, {J: N}, None),
    (R + J, {J: R + 1, R: 3}, ("0", "5")),
    (Cast("int64", Load(IDX, (J,))) + I, {J: 4}, ("i", "256")),
    (Load(WIDE, (J,)), {J: 4}, None),
    (Load(WIDE, (I,)) + J, {J: 4}, ("wide[i] + 0", "4")),
]


@pytest.mark.parametrize(("index", "inner", "expected"), RELAXED, ids=lambda v: str(v))
def test_relax(index: Expr, inner: dict[Var, Expr], expected: tuple[str, str] | None) -> None:
    if expected is not None:
        expected = (expected[0].replace(" + 0", ""), expected[1])
    assert shown(relax(index, inner, Analyzer(OUTER))) == expected


NOTHING = [
    (I, ("0", "0")),
    (I * 4 + J, ("0", "0")),
    (J - I, ("1", "3")),
    (J + R * 2 - I * 3, ("3", "5")),
    ((I * 8 + J) // 4, ("0", "-1")),
]


@pytest.mark.parametrize(("index", "expected"), NOTHING, ids=lambda v: str(v))
def test_relax_in_a_loop_without_iterations(index: Expr, expected: tuple[str, str]) -> None:
    """A sum of plain variables is read off, but where one has no values: it is as narrow there."""
    assert shown(relax(index, {J: 4, R: 3}, Analyzer({I: 0}))) == expected


def test_relax_uses_what_is_known() -> None:
    an = Analyzer({I: N, R: 3}).assuming(all_of(I + R - 1 >= 0, I + R - 1 < 2))
    assert shown(relax(I + R - 1, {R: 3}, an)) == ("0", "2")
    assert shown(relax(I + R - 1, {I: N, R: 3}, an)) == ("0", "2")


INNER = {J: 4, R: 3}
BOX = box({I0: range(5), J: range(4), R: range(3)})


@settings(max_examples=200, deadline=None, derandomize=True)
@given(index_exprs([I0, J, R]))
def test_relax_never_leaves_out_a_value(index: Expr) -> None:
    found = relax(index, INNER, Analyzer({I0: 5}))
    assert found is not None
    values = np.broadcast_to(evaluate(index, BOX), BOX[J].shape)
    low = evaluate(found.low, {I0: BOX[I0]})
    extent = evaluate(found.extent, {I0: BOX[I0]})
    assert np.all(low <= values) and np.all(values < low + extent)


def interval(low: Expr | int, extent: Expr | int) -> Interval:
    as_expr = [const(e) if isinstance(e, int) else e for e in (low, extent)]
    return Interval(as_expr[0], as_expr[1])


UNIONS = [
    (interval(I, 3), interval(I + 2, 4), ("i", "6")),
    (interval(I + 2, 4), interval(I, 3), ("i", "6")),
    (interval(I, 8), interval(I + 2, 4), ("i", "8")),
    (interval(0, N), interval(0, 3), ("0", "max(n, 3)")),
    (interval(0, N), interval(0, N + 2), ("0", "n + 2")),
    (interval(0, 4), interval(I0, 4), ("0", "19")),
    (interval(I, 4), interval(N, 4), None),
]


@pytest.mark.parametrize(("a", "b", "expected"), UNIONS, ids=lambda v: str(v))
def test_union(a: Interval, b: Interval, expected: tuple[str, str] | None) -> None:
    assert shown(union(a, b, Analyzer(OUTER))) == expected


CLIPPED = [
    (interval(-2, 6), 8, ("0", "4")),
    (interval(5, 6), 8, ("5", "3")),
    (interval(I0 * 8, 8), 128, ("i_0 * 8", "8")),
    (interval(I0 - 1, 3), 2, ("0", "2")),
    (interval(I0 - 1, 3), 16, ("i_0 - 1", "3")),
    (interval(-1, N + 2), N, ("0", "n")),
    (interval(0, N), 10, ("0", "n")),
    (interval(I0 * 4 + 62, 8), 64, ("62", "2")),
]


@pytest.mark.parametrize(("a", "size", "expected"), CLIPPED, ids=lambda v: str(v))
def test_intersect_with(a: Interval, size: Expr, expected: tuple[str, str]) -> None:
    assert shown(intersect_with(a, size, Analyzer(OUTER))) == expected


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    index_exprs([I0, J], 4),
    index_exprs([I0, J], 4),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 12),
)
def test_intervals_never_lie(a: Expr, b: Expr, first: int, second: int, size: int) -> None:
    an = Analyzer({I0: 5, J: 4})
    one, two = interval(a, first), interval(b, second)
    points = [{I0: np.int64(i), J: np.int64(j)} for i in range(5) for j in range(4)]

    def values(of: Interval, env: dict[Var, np.int64]) -> set[int]:
        low = int(evaluate(of.low, env))  # type: ignore[arg-type]
        return set(range(low, low + int(evaluate(of.extent, env))))  # type: ignore[arg-type]

    joined, clipped = union(one, two, an), intersect_with(one, size, an)
    covered = covers(one, two, an)
    for env in points:
        if joined is not None:
            assert values(one, env) | values(two, env) <= values(joined, env)
        assert values(one, env) & set(range(size)) <= values(clipped, env)
        assert not covered or values(two, env) <= values(one, env)


def test_covers() -> None:
    an = Analyzer({I: N})
    assert covers(interval(0, N), interval(I, 1), an)
    assert covers(interval(I * 4, 8), interval(I * 4 + 2, 6), an)
    assert not covers(interval(0, N), interval(I, 2), an)
    assert not covers(interval(I * 4, 8), interval(I * 4 - 1, 6), an)
    assert not covers(interval(I, 8), interval(N, 1), an)


def test_relax_uses_what_is_known_of_the_moving_part() -> None:
    """A tile that does not divide its range reaches no further than a predicate lets it."""
    an = Analyzer({I: 4, I0: 3, I1: 7}).assuming(I0 * 7 + I1 < 15)
    assert shown(relax(I * 15 + I0 * 7 + I1, {I0: 3, I1: 7}, an)) == ("i * 15", "15")
