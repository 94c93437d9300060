"""Bindings: digits, and what indices determine, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import (
    Analyzer,
    Digit,
    decompose,
    determines,
    determines_all,
)
from tensorir.expr import Expr, Var, binary, const, minimum
from tests.tensorir.arith_oracle import box, evaluate

I, J, K, F, N, M = (Var(name) for name in ("i", "j", "k", "f", "n", "m"))  # noqa: E741
FUSED = I * 5 + J
TILES = {I: 49, J: 4, K: 32}
TILED = I * 16 + J % 2 * 8 + K % 8
"""Of which TILED // 4 % 7 is a part of I * 4 + J % 2 * 2 + K // 4 % 2 once it is simplified, and of
TILED no more."""


def test_decompose() -> None:
    an = Analyzer()
    extents = {F: 640, I: 8, J: N}
    assert decompose(F // 32, extents, an) == ([Digit(F, 32, 20, 1)], 0)
    assert decompose(F // 16 % 8 * 4 + 3, extents, an) == ([Digit(F, 16, 8, 4)], 3)
    assert decompose((F // 32 * 32 + F % 32) * 2 - I, extents, an) == (
        [Digit(F, 1, 640, 2), Digit(I, 1, 8, -1)],
        0,
    )
    assert decompose(J * 8 + I + M, extents, an) == (
        [Digit(J, 1, None, 8), Digit(I, 1, 8, 1)],
        0,
    )
    assert decompose(J % 4, extents, an) == ([Digit(J, 1, 4, 1)], 0)
    assert decompose(I * I, extents, an) is None
    assert decompose((F + I) % 7, extents, an) is None
    assert decompose(minimum(F, 3), extents, an) is None


def test_a_part_that_is_stated_to_be_in_a_range_stands_for_itself() -> None:
    """Tiles of rows that are shifted: of 32 columns each, or of more than are apart."""
    extents = {F: 12, I: 7, J: 2, K: 32}
    shift = I * 13 % 8
    part = J * 32 + K - shift
    for width in (24, 32, 33):
        within = Analyzer(extents)
        within = within.assuming(shift <= J * 32 + K).assuming(J * 32 + K < shift + width)
        for step in (24, 32):
            told = determines_all((I, F * step + part), (F, J, K), extents, within)
            assert told == (width <= step)
    assert not determines((F * 32 + part,), F, extents, within)  # whose shift is not known


def cut_by_two(e: Expr, outer: int, inner: int) -> list[Expr]:
    parts = (e // outer, e // inner % (outer // inner), e % inner)
    return [Analyzer(TILES).simplify(part) for part in parts]


DETERMINED = [
    ([I], {I: N}, I),
    ([I * 4 + J], {I: 8, J: 4}, I),
    ([I * 4 + J], {I: N, J: 4}, I),
    ([I * 4 + J], {I: N, J: 4}, J),
    ([J - I * 4], {I: 8, J: 4}, I),
    ([I * 4 + J, J], {I: 8, J: 6}, I),
    ([F // 32, F % 32], {F: 100}, F),
    ([F // 32, F % 32], {F: N}, F),
    ([F // N, F % N], {F: M * N}, F),
    ([F // 32, F // 8 % 4, F % 8], {F: N}, F),
    ([F // 8, F % 32], {F: N}, F),
    ([F // 120, F // 40 % 3, F % 40 - F // 40 * 7 % 2 * 4], {F: 480}, F),
    ([F % 64], {F: 64}, F),
    ([F // 16 * 64 + F % 16 + K * 16], {F: N, K: 4}, F),
    ([FUSED // 32, FUSED % 32], {I: 13, J: 5}, I),
    ([FUSED // 32, FUSED % 32], {I: 13, J: 5}, J),
    ([FUSED // 32 * 8 + FUSED % 32 // 4, FUSED % 4], {I: 13, J: 5}, J),
    ([(I * 16 + J) // 32, (I * 16 + J) % 32], {I: N, J: 16}, I),
    *(
        ([J // 2 + K // 8 * 2, *cut_by_two(TILED, 28, 4)], TILES, v)
        for v in TILES
    ),
    ([I * N + J], {I: M, J: N}, J),
    ([I * N + J], {I: M, J: N}, I),
    ([I + J, I - J + J], {I: 4, J: 4}, J),
    ([I + N * 7], {I: 4}, I),
    ([const(0)], {I: 1}, I),
]


@pytest.mark.parametrize(("indices", "extents", "var"), DETERMINED, ids=lambda v: str(v))
def test_determines(indices: list[Expr], extents: dict[Var, Expr], var: Var) -> None:
    assert determines(indices, var, extents, Analyzer())


UNDETERMINED = [
    ([I * 4 + J], {I: 8, J: 6}, I),
    ([I * 4 + J], {I: 8, J: N}, I),
    ([I + J], {I: 8, J: 4}, I),
    ([F // 32], {F: 100}, F),
    ([F % 32], {F: 100}, F),
    ([F // 32, F % 16], {F: 100}, F),
    ([F // 240, F // 40 % 3, F % 40 - F // 40 * 7 % 4 * 4], {F: 480}, F),
    ([J], {I: 8, J: 4}, I),
    ([I * N], {I: 8}, I),
    ([F // N], {F: M * N}, F),
    ([], {I: 2}, I),
]


@pytest.mark.parametrize(("indices", "extents", "var"), UNDETERMINED, ids=lambda v: str(v))
def test_does_not_determine(indices: list[Expr], extents: dict[Var, Expr], var: Var) -> None:
    assert not determines(indices, var, extents, Analyzer())


def test_predicates_help() -> None:
    extents = {I: 8, J: 6}
    known = Analyzer(extents).assuming(J < 4)
    assert determines([I * 4 + J], I, extents, known)
    assert not determines([I * 4 + J], I, extents, Analyzer(extents))


SMALL = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
TERM = st.builds(
    lambda v, d, m, s: v // d % m * s, st.sampled_from([I, J, F]), SMALL, SMALL, SMALL
) | st.builds(lambda v, d, s: v // d * s, st.sampled_from([I, J, F]), SMALL, SMALL)
INDEX = st.lists(TERM, min_size=1, max_size=3).map(
    lambda terms: sum(terms[1:], start=terms[0])  # type: ignore[arg-type]
)
FUSED_INDEX = st.builds(
    lambda op, factor, divisor: binary(op, I * factor + J, divisor),
    st.sampled_from(["//", "%"]),
    SMALL,
    SMALL,
)
EXTENTS = st.fixed_dictionaries({I: st.integers(1, 7), J: st.integers(1, 7), F: st.integers(1, 9)})


def fixes(indices: list[Expr], var: Var, env: dict[Var, np.ndarray]) -> bool:
    """Brute force: no two points of the box with equal indices and different `var`."""
    size = len(env[var])
    keys = zip(*[np.broadcast_to(evaluate(e, env), (size,)).tolist() for e in indices])
    seen: dict[tuple[int, ...], int] = {}
    return all(seen.setdefault(k, v) == v for k, v in zip(keys, env[var].tolist()))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(INDEX | FUSED_INDEX, min_size=1, max_size=3), EXTENTS)
def test_determines_never_lies(indices: list[Expr], extents: dict[Var, int]) -> None:
    env = box({var: range(extent) for var, extent in extents.items()})
    for var in extents:
        if determines(indices, var, extents, Analyzer()):
            assert fixes(indices, var, env)


@pytest.mark.parametrize("inner", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("split", [1, 2, 4, 5, 8, 16])
def test_fuse_and_split_determine_their_loops(inner: int, split: int) -> None:
    extents = {I: 9, J: inner}
    fused = I * inner + J
    indices = [fused // split // 2, fused // split % 2, fused % split]
    assert determines_all(indices, [I, J], extents, Analyzer())


@pytest.mark.parametrize(
    ("indices", "extents", "found"),
    [
        ([I * 4 + J], {I: 8, J: 4}, True),
        ([J, I], {I: 8, J: 4}, True),
        ([F // 8, F % 8], {F: 64}, True),
        ([F // 8 * 2 + I, F % 8], {F: 64, I: 2}, True),
        ([7 - I], {I: 8}, True),
        ([FUSED // 4, FUSED % 4], {I: 4, J: 5}, True),
        ([I * 4 + J], {I: 8, J: 6}, False),
        ([F // 8, F % 4], {F: 32}, False),
    ],
)
def test_what_all_loops_are_determined_by(
    indices: list[Expr], extents: dict[Var, int], found: bool
) -> None:
    assert determines_all(indices, extents, extents, Analyzer()) == found


def fused_and_split(shape: tuple[int, ...], threads: int) -> tuple[list[Expr], dict[Var, int]]:
    """The indices of loops of such extents, fused, and split again by `threads`, and the loops."""
    fused, total = I * threads + J, int(np.prod(shape))
    indices: list[Expr] = []
    for at, extent in enumerate(shape):
        digit = fused // int(np.prod(shape[at + 1 :]))
        indices.append(digit % extent if at else digit)
    return [Analyzer().simplify(e) for e in indices], {I: -(-total // threads), J: threads}


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("seed", range(20))
def test_loops_that_were_fused_and_split_are_told_by_the_indices(seed: int, threads: int) -> None:
    """Whatever the extents have in common with the number of threads."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 8, rng.integers(2, 7)))
    indices, extents = fused_and_split(shape, threads)
    for order in (indices, indices[::-1]):
        assert determines(order, I, extents, Analyzer()), shape
        assert determines(order, J, extents, Analyzer()), shape


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 7)), min_size=1, max_size=3))
def test_digits_of_a_sum_tell_no_more_than_they_do(digits: list[tuple[int, int]]) -> None:
    """Of sums that were cut by what their terms have in common too."""
    extents = {I: 6, J: 12}
    indices = [Analyzer().simplify((I * 12 + J) // d % m) for d, m in digits]
    points = [(i, j) for i in range(6) for j in range(12)]
    for var, at in ((I, 0), (J, 1)):
        seen: dict[tuple[int, ...], set[int]] = {}
        for point in points:
            key = tuple((point[0] * 12 + point[1]) // d % m for d, m in digits)
            seen.setdefault(key, set()).add(point[at])
        if determines(indices, var, extents, Analyzer()):
            assert all(len(values) == 1 for values in seen.values())
