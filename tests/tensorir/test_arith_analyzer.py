"""What the analyzer must find out: the expressions that schedules and lowering produce."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import (
    TRUE,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    all_of,
    any_of,
    binary,
    const,
    maximum,
    minimum,
    select,
)
from tensorir.text.printer import format_expr
from tensorir.visit import walk_exprs
from tests.tensorir.arith_oracle import box, evaluate, restrict

I, J, K, F, N, M, R = (Var(name) for name in ("i", "j", "k", "f", "n", "m", "r"))  # noqa: E741
I0, I1, X = Var("i_0"), Var("i_1"), Var("x", "float32")
A = Buffer("A", (64,), "float32")
IDX = Buffer("idx", (64,), "int32")
WIDE = Buffer("wide", (64,), "int64")

EXTENTS = {I0: 64, I1: 16, I: 8, J: 4, K: 3, F: 4096}

SIMPLIFIED = [
    ((I0 * 16 + I1) // 32 * 32 + (I0 * 16 + I1) % 32, "i_0 * 16 + i_1"),
    ((I0 * 16 + I1) // 16, "i_0"),
    ((I0 * 16 + I1) % 16, "i_1"),
    ((I0 * 16 + I1) // 8, "i_0 * 2 + i_1 // 8"),
    ((I0 * 16 + I1) % 8, "i_1 % 8"),
    ((I0 * 16 + I1) // 64, "i_0 // 4"),
    ((I0 * 16 + I1) % 64, "i_0 % 4 * 16 + i_1"),
    ((I0 * 16 + I1) // 1024, "0"),
    ((I0 * 16 + I1) % 1024, "i_0 * 16 + i_1"),
    (F // 128 * 128 + F // 16 % 8 * 16 + F % 16, "f"),
    (F // 64 // 8, "f // 512"),
    (F % 64 // 8, "f // 8 % 8"),
    (F % 64 % 8, "f % 8"),
    (F // 64 % 64, "f // 64"),
    (F - F // 32 * 32, "f % 32"),
    (F % 32 + F // 32 * 32 + I, "f + i"),
    ((F % 32 + I * 32) % 8, "f % 8"),
    ((F + 127) // 32, "(f + 31) // 32 + 3"),
    (((N + 3) // 4 + 7) // 8, "(n + 31) // 32"),
    ((N - 1) // 4 + 1, "(n + 3) // 4"),
    (N * 4 // 8, "n // 2"),
    ((N * 4 + 3) // 8, "n // 2"),
    (N * 6 % 9, "n * 2 % 3 * 3"),
    (
        (I0 * 16 + I1 - (K + 2)) * (I0 * 16 + I1 - K - 2),
        "(i_0 * 16 + i_1 - k - 2) * (i_0 * 16 + i_1 - k - 2)",
    ),
    ((I + J) * (I - J), "i * i - j * j"),
    ((I0 * 16 + I1) * (N + M), "i_0 * n * 16 + i_0 * m * 16 + i_1 * n + i_1 * m"),
    ((N * M + I) // N, "m + i // n"),
    (N * M % N, "0"),
    (N // -4, "(0 - n) // 4"),
    (16 * I + (J + 1) * 2, "i * 16 + j * 2 + 2"),
    (I * N - N * I, "0"),
    ((I + 1) * (N + 2) - N, "i * n + i * 2 + 2"),
    (J - I - J, "0 - i"),
    (7 - I, "7 - i"),
    (I - J + 3 - 5, "i - j - 2"),
    (minimum(I + 3, 20), "i + 3"),
    (maximum(I - 8, 0), "0"),
    (minimum(minimum(I, 5), 6), "min(i, 5)"),
    (minimum(I + N, I + N + 2), "i + n"),
    (maximum(minimum(I, N), 0) - minimum(I, N), "max(min(i, n), 0) - min(i, n)"),
    (Var("one") * 5 + I, "one * 5 + i"),
    (I << 3, "i * 8"),
    (F >> 4, "f // 16"),
    (F & 15, "f % 16"),
    (I0 * 16 + I1 < 1024, "True"),
    (I0 * 16 + I1 < 1000, "i_0 * 16 + i_1 < 1000"),
    (I0 * 16 + I1 < 992, "i_0 < 62"),
    (I0 * 4 < 10, "i_0 < 3"),
    (I + 3 < J + 3, "i < j"),
    (I * 4 < J * 4, "i < j"),
    (I + J < J + N, "i < n"),
    (0 <= I + K - 1, "1 <= i + k"),
    (I + K - 1 < N, "i + k <= n"),
    (I + K - 3 < N, "i + k < n + 3"),
    (I >= 8, "False"),
    (I0 * 16 + I1 == 0, "i_0 == 0 and i_1 == 0"),
    (I0 * 16 + I1 == 37, "i_0 == 2 and i_1 == 5"),
    (I0 * 4 == J * 2 + 1, "False"),
    (I == J + 1, "i == j + 1"),
    (I != I, "False"),
    (all_of(I < 4, I < 6), "i < 4"),
    (all_of(I < 6, I < 4), "i < 4"),
    (all_of(I < 2, I >= 4), "False"),
    (any_of(I < 4, I >= 4), "True"),
    (any_of(I < 4, I < 6), "i < 6"),
    (Not(all_of(I < 4, J == 0)), "4 <= i or j != 0"),
    (Not(I < N), "n <= i"),
    (select(I < 8, J, K), "j"),
    (select(I < 4, select(I < 5, J, K), K), "select(i < 4, j, k)"),
    (select(I < 4, minimum(I, 3), 9), "select(i < 4, i, 9)"),
    (select(I < 4, I % 4, maximum(I, 4)), "i"),
    (Select(Not(X < 1.0), I, J), "select(x < 1.0, j, i)"),
    (Cast("int64", I < 8) + 1, "2"),
    (A[F % 32 + F // 32 * 32] * 2.0, "A[f] * 2.0"),
    (
        select(I + K - 1 >= 0, A[maximum(I + K - 1, 0)], 0.0),
        "select(1 <= i + k, A[i + k - 1], 0.0)",
    ),
]


@pytest.mark.parametrize(("e", "text"), SIMPLIFIED, ids=lambda v: v if isinstance(v, str) else "")
def test_simplifies(e: Expr, text: str) -> None:
    result = Analyzer(EXTENTS).simplify(e)
    assert format_expr(result) == text
    assert Analyzer(EXTENTS).simplify(result) is result


KEPT = [
    I0 * 16 + I1,
    F // 32,
    F % 32,
    I - J + 3,
    5 - I,
    I * N + J,
    minimum(I + K - 1, N),
    select(I < 4, J, K),
    A[I0 * 16 + I1] + 0.0,
    (X + 1.0) - 1.0,
    X * 0.0,
    Cast("float32", F % 32) < X,
    all_of(1 <= I + K, I + K <= N),
]


@pytest.mark.parametrize("e", KEPT, ids=format_expr)
def test_keeps_the_object(e: Expr) -> None:
    assert Analyzer(EXTENTS).simplify(e) is e


SPLIT = {I0: (N + 3) // 4, I1: 4}
PADDED = {I: N, R: 3}

PROVED = [
    ({I: N}, 0 <= I),
    ({I: N}, I < N),
    ({I: N}, I + 1 <= N),
    ({I: N}, 1 <= N),
    ({I: N}, I * 4 + 3 < N * 4),
    ({I: N}, I // 4 < (N + 3) // 4),
    ({I: N + 2}, I - 2 < N),
    ({I: N, J: M}, I * M + J < N * M),
    ({I: N, J: M}, I + J < N + M - 1),
    ({F: N * M, J: M}, F // M < N),
    ({F: N * M, J: M}, F % M < M),
    ({F: N * 32}, F // 32 < N),
    ({F: N * 32}, F // 32 * 32 + 31 < N * 32),
    ({F: N}, F % 8 <= F),
    (SPLIT, I0 * 4 + I1 < (N + 3) // 4 * 4),
    (SPLIT, I0 * 4 + I1 < N + 3),
    ({I: 10, J: I + 1}, J <= 9),
    ({I: 10, J: 10 - I}, I + J < 10),
    ({I0: 3, I1: minimum(4, 10 - I0 * 4)}, I0 * 4 + I1 < 10),
    ({I0: (N + 3) // 4, I1: minimum(4, N - I0 * 4)}, I0 * 4 + I1 < N),
    ({I: N}, minimum(I + 3, N - 1) < N),
    ({I: N}, maximum(minimum(I + 3, N - 1), 0) < N),
    ({I: N}, maximum(I - 3, 0) < N),
    ({I: N}, select(I < 3, 0, I - 3) < N),
    ({I: N, J: M}, N * M - 1 >= I * M + J),
    ({I: 5, J: 3}, all_of(I + J < 7, I * J <= 8, (I * 3 + J) // 3 == I)),
    ({}, minimum(I, J) <= maximum(I, J)),
    ({}, I % 4 < 4),
    ({}, I - I // 4 * 4 >= 0),
    ({}, (I + 3) // 4 * 4 >= I),
    ({}, I // 4 <= (I + 1) // 4),
    ({}, Load(IDX, (I,)) == Load(IDX, (I,))),
    ({}, Cast("int64", Load(IDX, (I,))) < 2**31),
    ({}, Cast("int64", X < 1.0) <= 1),
]


@pytest.mark.parametrize(("extents", "cond"), PROVED, ids=lambda v: str(v))
def test_proves(extents: dict[Var, Expr], cond: Expr) -> None:
    assert Analyzer(extents).prove(cond)


REFUSED = [
    ({I: N}, I < N - 1),
    ({I: N}, I < 100),
    (SPLIT, I0 * 4 + I1 < N),
    (SPLIT, I0 * 4 + I1 < N + 2),
    ({F: N * M}, F // M < N),
    ({F: N * M, J: M}, F // M < N - 1),
    ({}, I * I >= I),
    ({}, X == X),
    ({}, X < X + 1.0),
    ({}, N // M * M <= N),
    ({}, Load(WIDE, (I,)) >= 0),
]


@pytest.mark.parametrize(("extents", "cond"), REFUSED, ids=lambda v: str(v))
def test_does_not_prove(extents: dict[Var, Expr], cond: Expr) -> None:
    assert not Analyzer(extents).prove(cond)


BOUNDS = [
    ({I: 8, J: 4}, I * 4 + J, (0, 31)),
    ({I: 8, J: 4}, J - I, (-7, 3)),
    ({I: 8}, I // 3, (0, 2)),
    ({I: 8}, (I + 5) % 4, (0, 3)),
    ({I: 3}, (I + 5) % 8, (5, 7)),
    ({I: 8}, minimum(I, 5) * 2, (0, 10)),
    ({I: 8}, maximum(I - 4, 0), (0, 3)),
    ({I: 8, J: 4}, I * J, (0, 21)),
    ({I: 8}, select(I < 4, I, I - 4), (0, 3)),
    ({I: N}, I, (0, None)),
    ({I: N}, N, (1, None)),
    ({I: N}, I - N, (None, -1)),
    ({F: 10, I: F + 1}, I - F, (-9, 0)),
    ({}, N % 8, (0, 7)),
    ({}, N, (None, None)),
    ({I0: 3, I1: minimum(4, 10 - I0 * 4)}, I0 * 4 + I1, (0, 9)),
]


@pytest.mark.parametrize(("extents", "e", "expected"), BOUNDS, ids=lambda v: str(v))
def test_bounds(extents: dict[Var, Expr], e: Expr, expected: tuple[int | None, int | None]) -> None:
    assert Analyzer(extents).bounds(e) == expected


ASSUMED = [
    (PADDED, all_of(I + R - 1 >= 0, I + R - 1 < 8), I + R - 1, (0, 7)),
    (PADDED, all_of(I + R - 1 >= 0, I + R - 1 < 8), 1 - I - R, (-7, 0)),
    (PADDED, all_of(I + R - 1 >= 0, I + R - 1 < 8), I, (0, 8)),
    (PADDED, all_of(I + R - 1 >= 0, I + R - 1 < 8), (I + R) * 4 + J % 4, (4, 35)),
    ({I: 10}, 1 <= I, I, (1, 9)),
    ({I: 10}, I != 0, I, (1, 9)),
    ({I: 10}, I == 4, I * 2, (8, 8)),
    ({I: 10}, Not(I < 4), I, (4, 9)),
    ({I: 10}, Not(any_of(I < 4, I == 9)), I, (4, 8)),
    ({I: 10, J: 10}, I + J == 3, I + J, (3, 3)),
    ({I: 10, J: 10}, I + J == 3, I, (0, 3)),
    ({F: 4096}, F // 64 < 3, F, (0, 191)),
    ({F: 4096}, F // 64 == 3, F, (192, 255)),
    ({I: 10, J: 10}, maximum(I, J) < 4, J, (0, 3)),
    ({I: 64}, minimum(I, N) >= 4, N, (4, None)),
    ({I: 10}, any_of(I < 3, X < 1.0), I, (0, 9)),
    ({I: 64}, I % 4 == 0, I % 4, (0, 0)),
]


@pytest.mark.parametrize(("extents", "cond", "e", "expected"), ASSUMED, ids=lambda v: str(v))
def test_assuming(
    extents: dict[Var, Expr], cond: Expr, e: Expr, expected: tuple[int | None, int | None]
) -> None:
    before = Analyzer(extents)
    assert before.assuming(cond).bounds(e) == expected
    assert not before.prove(cond)


def test_assuming_relations() -> None:
    known = Analyzer({I: 64, K: 64}).assuming(I * 2 + K - 3 < N)
    assert known.prove(I * 2 + K < N + 3)
    assert known.prove(I * 4 + K * 2 - 6 < N * 2)
    assert known.prove(K < N + 3)
    assert not known.prove(I * 2 + K - 2 < N)


def test_assuming_opaque_conditions() -> None:
    cond = X < 1.0
    known = Analyzer().assuming(cond)
    assert known.simplify(cond) is TRUE
    assert known.prove(cond)
    assert format_expr(known.simplify(select(cond, I, J))) == "i"


def test_conditions_on_memory_hold_only_where_asked_for() -> None:
    loaded = Load(IDX, (I,))
    cond = all_of(0 <= loaded, loaded < 10)
    place = Cast("int64", loaded)
    assert Analyzer().assuming(cond).bounds(place) == (-(2**31), 2**31 - 1)
    assert Analyzer().assuming(cond, memory=True).bounds(place) == (0, 9)
    gather = select(cond, A[maximum(place, 0)], 0.0)
    assert Analyzer().simplify(gather) is select(cond, A[place], 0.0)


def test_divides() -> None:
    an = Analyzer({I: 8})
    assert an.divides(I * 8 + N * 4, 4)
    assert an.divides(N // 4 * 4 + 8, 4)
    assert an.divides(const(12), 6)
    assert not an.divides(I * 8 + 2, 4)
    assert not an.divides(N, 2)
    assert an.assuming(N % 4 == 0).divides(N, 4)
    assert an.assuming(N % 4 == 0).simplify(N // 4 * 4) is N


def test_a_new_binding_replaces_the_old_one() -> None:
    an = Analyzer({I: 4, J: 4})
    an.bind(I, 8)
    assert an.bounds(I) == (0, 7)
    assert an.bounds(J) == (0, 3)
    assert not an.prove(I < 4)


def test_copies_are_independent() -> None:
    an = Analyzer({I: N})
    other = an.copy()
    other.bind(J, 4)
    other.bind(I, 3)
    assert an.prove(I < N) and not an.prove(J < 4)
    assert other.bounds(I + J) == (0, 5)


def test_ranges_with_open_and_symbolic_ends() -> None:
    an = Analyzer()
    an.bind_range(N, 1, None)
    an.bind_range(I, -N, N)
    assert an.bounds(N) == (1, None)
    assert an.prove(I <= N) and an.prove(0 - N <= I)
    assert not an.prove(0 <= I)


def test_variables_with_one_value_become_constants() -> None:
    assert Analyzer({I: 1}).simplify(I * 4 + J) is J
    assert isinstance(Analyzer({I: 1}).simplify(I), Const)


def test_division_by_zero_is_left_alone() -> None:
    for e in (I // 0, I % 0, (I // 0) * 2 + I % 0):
        assert Analyzer({I: 4}).bounds(e) == (None, None)
        assert Analyzer({I: 4}).simplify(e).dtype == "int64"


@pytest.mark.parametrize("by", [0, -1, -3])
@pytest.mark.parametrize("digit", [lambda e, by: e // by, lambda e, by: e % by])
def test_what_is_known_of_quotients_by_no_size(digit: Callable[[Expr, int], Expr], by: int) -> None:
    """As of loops of a size that is 0, which never run: bounds are looked for at points."""
    atoms = [digit(e, by) for e in (I, I + J * 2)]
    for said in (a * 6 + J < limit for a in atoms for limit in (0, 3)):
        analyzer = Analyzer({I: 5, J: 4}).assuming(said)
        for asked in (f for a in atoms for f in (a, a * 2 + J, I - a)):
            low, high = analyzer.bounds(asked)
            env = restrict(box({I: range(5), J: range(4)}), said)
            values = evaluate(asked, env)
            assert not values.size or low is None or low <= values.min()
            assert not values.size or high is None or values.max() <= high


def test_contradictions_do_not_crash() -> None:
    an = Analyzer({I: 4, J: I}).assuming(all_of(I < 0, J > 10, I == J))
    an.simplify((I * 3 + J) // 4 + I % 3)
    an.bounds(select(I < J, I, J))


@pytest.mark.parametrize("op", ["<", "<=", "==", "!="])
@pytest.mark.parametrize("limit", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("swapped", [False, True])
def test_comparisons_with_the_limits_of_integers(op: str, limit: int, swapped: bool) -> None:
    """The start of an argmax is the largest integer; nothing beyond it can be written."""
    v, n = Var("v"), Var("n")
    analyzer = Analyzer()
    analyzer.bind_range(n, 0, None)
    for other in (v, n, v - n, v + 1, n * 4 + 3):
        a, b = (const(limit), other) if swapped else (other, const(limit))
        found = analyzer.simplify(binary(op, a, b))
        for e in walk_exprs(found):
            assert not isinstance(e, Const) or -(2**63) <= e.value < 2**63, found


@pytest.mark.parametrize(
    "extent",
    [N, 2 * N + 1, N // 3, minimum((N + 3) // 4, const(16)), maximum(N // 3, const(4)), N % 5 + 1],
    ids=format_expr,
)
def test_what_is_bound_is_below_its_extent(extent: Expr) -> None:
    """Whatever that is: of the least of a quotient and a number it was not known, so that programs
    with such loops were refused."""
    analyzer = Analyzer()
    analyzer.bind_sizes([(N, 0)])
    analyzer.bind(K, extent)
    assert analyzer.prove(K < extent)
    assert not analyzer.prove(K + 1 < extent)
