"""Exclusive or of indices: simplified, bounded, undone; against all values of small boxes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer, determines_all, inverse_of, is_dense, relax
from tensorir.expr import BinOp, Expr, Var, binary, const
from tensorir.visit import substitute, walk_exprs
from tests.tensorir.arith_oracle import box, evaluate, same_value

I, J, K, N = (Var(name) for name in "ijkn")  # noqa: E741
EXTENTS = {I: 16, J: 24, K: 5}
POINTS = box({var: range(size) for var, size in EXTENTS.items()})
modest = settings(max_examples=200, deadline=None, derandomize=True)

DIGITS = [
    *(var // d % m for var in (I, J, K) for d, m in ((1, 2), (1, 4), (2, 4), (4, 2), (1, 8))),
    I, J, K, I // 4, J // 8, J * 2, I * 4 + K, const(0), const(3), const(8),
]  # fmt: skip
MIXED = st.recursive(
    st.sampled_from(DIGITS),
    lambda inner: st.one_of(
        st.builds(binary, st.just("^"), inner, inner),
        st.builds(lambda a, b, c: a * c + b, inner, inner, st.sampled_from([2, 4, 8, 3])),
        st.builds(binary, st.sampled_from(["//", "%"]), inner, st.sampled_from([2, 4, 8])),
    ),
    max_leaves=6,
)


def simple(e: Expr) -> Expr:
    return Analyzer(EXTENTS).simplify(e)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((I * 8 + K) ^ K, I * 8),
        ((I * 8 + K) ^ (J * 8), (I ^ J) * 8 + K),
        ((J // 8 * 32 + J % 8) ^ (I % 8), J // 8 * 32 + (J % 8 ^ I % 8)),
        ((I ^ K) ^ K, I),
        ((I ^ 5) ^ (K ^ 5), I ^ K),
        ((J ^ I % 8) // 8, J // 8),
        ((J ^ I) % 4, J % 4 ^ I % 4),
        (J // 8 * 8 + (J % 8 ^ K), J ^ K),
        ((I * 8 + 3) ^ 5, I * 8 + 6),
    ],
)
def test_simplified(before: Expr, after: Expr) -> None:
    assert simple(before) is simple(after)
    assert same_value(before, simple(before), POINTS)


@modest
@given(MIXED)
def test_simplify_keeps_the_value_and_bounds_hold(e: Expr) -> None:
    an = Analyzer(EXTENTS)
    once = an.simplify(e)
    assert an.simplify(once) is once
    assert same_value(e, once, POINTS)
    low, high = an.bounds(e)
    values = evaluate(e, POINTS)
    assert low is not None and low <= values.min() and high is not None and values.max() <= high


@modest
@given(MIXED, st.sampled_from([(I,), (J,), (I, K), (I, J, K)]))
def test_relaxed(e: Expr, inner: tuple[Var, ...]) -> None:
    span = relax(e, {var: EXTENTS[var] for var in inner}, Analyzer(EXTENTS))
    assert span is not None
    low, values = evaluate(span.low, POINTS), evaluate(e, POINTS)
    assert np.all(low <= values) and np.all(values < low + evaluate(span.extent, POINTS))


@pytest.mark.parametrize(("low", "high"), [(0, 23), (-9, 5), (8, 15)])
def test_only_a_run_of_the_narrow_side_is_left(low: int, high: int) -> None:
    """As far as 24, which is no power of two; negative numbers too."""
    an = Analyzer({K: 5})
    an.bind_range(N, low, high)
    values = [n ^ k for n in range(low, high + 1) for k in range(8)]
    assert an.bounds(N ^ K) == (min(values), max(values))


def test_symbolic_bounds() -> None:
    an = Analyzer({K: 8})
    an.bind_range(N, 1, None)
    an.bind(J, N * 8)
    assert an.prove(binary("<=", const(0), J ^ K)) and an.prove(binary("<", J ^ K, N * 8 + 7))
    span = relax(J ^ K, {K: const(8)}, an)
    assert span is not None and span.low is an.simplify(J // 8 * 8) and span.extent is const(8)


MAPS = {
    "rows": ((I, J ^ I % 8), True),
    "groups": ((I, (J // 4 ^ I % 2) * 4 + J % 4), True),
    "flat": (((I * 24 + J) ^ (I % 8),), True),
    "own digits": ((I ^ I // 8, J), True),
    "a chain": ((I, J ^ I % 8, K ^ 0), True),
    "both ways": ((I ^ J % 4, J), True),
    "a constant": ((I, J ^ I % 8 ^ 5), True),
    "in parts": ((J // 8, I, J % 8 ^ I % 8), True),
    "unequal parts": ((I, J ^ (I // 2 % 8 ^ I % 2)), True),
    "lost": ((I, J ^ J % 4), False),
    "one of two": ((I ^ J % 16,), False),
    "each by the other": ((I ^ J % 4, J ^ I % 4), False),
}


@pytest.mark.parametrize("name", MAPS)
def test_what_is_told_is_told_by_all_points(name: str) -> None:
    """Index maps are one to one, or not, and the inverse is right, at each point."""
    components, expected = MAPS[name]
    used = {v for e in components for v in walk_exprs(e) if isinstance(v, Var)}
    extents = {var: EXTENTS[var] for var in (I, J, K) if var in used}
    an = Analyzer(extents)
    points = box({var: range(size) for var, size in extents.items()})
    images = np.stack([np.broadcast_to(evaluate(e, points), points[I].shape) for e in components])
    one_to_one = len(np.unique(images.T, axis=0)) == images.shape[1]
    assert determines_all(components, extents, extents, an) == expected == one_to_one
    found = inverse_of(tuple(extents), components, AXES[: len(components)], extents, an)
    assert (found is not None) == expected
    for var, value in zip(extents, found or ()):
        back = substitute(value, dict(zip(AXES, components)))
        assert np.array_equal(evaluate(back, points), points[var])


AXES = (Var("a"), Var("b"), Var("c"))
PARTS = [I % 8, I // 2 % 4, J % 8, J // 8, J % 4, I, J]


@pytest.mark.parametrize("xored", list(itertools.product(PARTS, PARTS)))
def test_never_wrong(xored: tuple[Expr, Expr]) -> None:
    """What is said to be determined, or dense, is so when all points are tried."""
    a, b = xored
    components = (I, J ^ BinOp("^", a, b))
    extents = {I: EXTENTS[I], J: EXTENTS[J]}
    points = box({var: range(size) for var, size in extents.items()})
    images = np.stack([evaluate(e, points) for e in components])
    distinct = len(np.unique(images.T, axis=0))
    if determines_all(components, extents, extents, Analyzer(extents)):
        assert distinct == images.shape[1]
    if is_dense(components, extents, Analyzer(extents)):
        assert distinct == np.prod(images.max(1) - images.min(1) + 1)
