"""Random expressions: no conclusion of the analyzer may be wrong at any point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer
from tensorir.expr import Cast, Expr, Var, const, minimum
from tensorir.verifier.bounds import inside
from tests.tensorir.arith_oracle import (
    box,
    conditions,
    evaluate,
    index_exprs,
    narrow_exprs,
    restrict,
    same_value,
)

I, J, K = (Var(name) for name in "ijk")  # noqa: E741
EXTENTS = {I: 5, J: 4, K: 6}
BOX = box({var: range(extent) for var, extent in EXTENTS.items()})
INDEX = index_exprs([I, J, K], bits=True)
CONDITION = conditions([I, J, K])
modest = settings(max_examples=70, deadline=None, derandomize=True)


def check_bounds(analyzer: Analyzer, e: Expr, env: dict[Var, np.ndarray]) -> None:
    low, high = analyzer.bounds(e)
    values = np.broadcast_to(evaluate(e, env), len(next(iter(env.values()))))
    assert not len(values) or low is None or low <= values.min()
    assert not len(values) or high is None or values.max() <= high


@modest
@given(INDEX)
def test_simplify_keeps_the_value(e: Expr) -> None:
    assert same_value(e, Analyzer(EXTENTS).simplify(e), BOX)


@modest
@given(INDEX)
def test_simplify_without_ranges_keeps_the_value(e: Expr) -> None:
    everywhere = box({var: range(-7, 8, 2) for var in EXTENTS})
    assert same_value(e, Analyzer().simplify(e), everywhere)


@modest
@given(INDEX | CONDITION)
def test_simplify_is_idempotent(e: Expr) -> None:
    once = Analyzer(EXTENTS).simplify(e)
    assert Analyzer(EXTENTS).simplify(once) is once


@modest
@given(CONDITION)
def test_simplified_conditions_keep_the_truth(cond: Expr) -> None:
    assert same_value(cond, Analyzer(EXTENTS).simplify(cond), BOX)


@modest
@given(INDEX)
def test_bounds_hold(e: Expr) -> None:
    check_bounds(Analyzer(EXTENTS), e, BOX)


@modest
@given(CONDITION)
def test_prove_never_lies(cond: Expr) -> None:
    if Analyzer(EXTENTS).prove(cond):
        assert np.all(evaluate(cond, BOX))


@modest
@given(INDEX, st.integers(1, 8))
def test_divides_never_lies(e: Expr, k: int) -> None:
    if Analyzer(EXTENTS).divides(e, k):
        assert np.all(evaluate(e, BOX) % k == 0)


@modest
@given(CONDITION, INDEX, CONDITION)
def test_assuming_never_lies(known: Expr, e: Expr, asked: Expr) -> None:
    env = restrict(BOX, known)
    analyzer = Analyzer(EXTENTS).assuming(known)
    check_bounds(analyzer, e, env)
    assert same_value(e, analyzer.simplify(e), env)
    assert same_value(asked, analyzer.simplify(asked), env)


@modest
@given(st.integers(1, 4), st.integers(1, 9), INDEX, CONDITION)
def test_symbolic_extents_never_lie(factor: int, size: int, e: Expr, cond: Expr) -> None:
    n = Var("n")
    analyzer = Analyzer()
    analyzer.bind(I, n)
    analyzer.bind(J, minimum(factor, n - I))
    analyzer.bind(K, I + 1)
    env = box({I: range(size), J: range(factor), K: range(size)})
    env[n] = np.full(len(env[I]), size)
    env = restrict(restrict(env, J < n - I), K < I + 1)
    check_bounds(analyzer, e + n, env)
    assert same_value(e, analyzer.simplify(e), env)
    assert same_value(cond, analyzer.simplify(cond), env)


NARROW = {t: (Var("a", t), Var("b", t)) for t in ("int8", "uint8")}
PAIRS = {t: st.tuples(narrow_exprs(*ab), narrow_exprs(*ab)) for t, ab in NARROW.items()}


@modest
@given(st.data(), st.sampled_from(["int8", "uint8"]))
def test_narrow_integers_wrap(data: st.DataObject, dtype: str) -> None:
    a, b = NARROW[dtype]
    e, limit = data.draw(PAIRS[dtype])
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    env = box({a: range(low, high + 1, 5), b: range(low, high + 1, 7)})
    wide = Cast("int64", e) * 2 - Cast("int64", limit)
    for value in (e, e < limit, Cast("int64", e), wide):
        assert same_value(value, Analyzer().simplify(value), env)
    cond = e < limit
    env = restrict(env, cond)
    analyzer = Analyzer().assuming(cond)
    check_bounds(analyzer, wide, env)
    check_bounds(analyzer, e, env)


@modest
@given(INDEX, CONDITION, st.integers(-9, 9), st.integers(1, 60))
def test_what_is_inside_is_so_and_whatever_has_bounds_is(e: Expr, cond: Expr, by: int, size: int):
    analyzer, env = Analyzer(EXTENTS).assuming(cond), restrict(BOX, cond)
    if inside(const(size), e + by, analyzer):
        values = np.broadcast_to(evaluate(e + by, env), len(env[I]))
        assert np.all((values >= 0) & (values < size))
    low, high = analyzer.bounds(e)
    if low is not None and high is not None and low <= high:
        assert inside(const(high - low + 1), e - low, analyzer)
