"""Points end searches for bounds that are not there, and no other search."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer, bounds, logic
from tensorir.arith.points import DRAWN, drawn_truths, shows_least
from tensorir.expr import TRUE, Expr, Var, all_of, any_of
from tests.tensorir.arith_oracle import conditions, index_exprs

I, J, K = (Var(name) for name in "ijk")  # noqa: E741
EXTENTS = {I: 5, J: 4, K: 6}
INDEX, CONDITION = index_exprs([I, J, K], bits=True), conditions([I, J, K])


def knowing(cond: Expr) -> Analyzer:
    return Analyzer(EXTENTS).assuming(cond)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(INDEX, st.lists(CONDITION, min_size=1, max_size=3))
def test_bounds_are_those_of_the_whole_search(e: Expr, said: list[Expr]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        analyzer = Analyzer(EXTENTS)
        for cond in said:
            analyzer = analyzer.assuming(cond)
        found = analyzer.bounds(e), analyzer.prove(e <= 3)
        patch.setattr(bounds, "shows_least", lambda *asked: False)
        analyzer = Analyzer(EXTENTS)
        for cond in said:
            analyzer = analyzer.assuming(cond)
        assert found == (analyzer.bounds(e), analyzer.prove(e <= 3))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(CONDITION, min_size=2, max_size=4), CONDITION)
def test_conditions_are_those_of_asking_each_of_the_others(parts: list[Expr], said: Expr) -> None:
    for joined, known in product((all_of(*parts), any_of(*parts)), (said, TRUE)):
        found = knowing(known).simplify(joined)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logic, "is_open", lambda *asked: False)
            patch.setattr(logic, "drawn_truths", lambda *asked: None)
            assert found is knowing(known).simplify(joined)


def test_conditions_that_say_nothing_of_each_other_are_not_assumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assumed: list[object] = []
    branch = Analyzer.branch
    monkeypatch.setattr(
        Analyzer, "branch", lambda *asked: assumed.append(asked[1]) or branch(*asked)
    )
    edges = (I * 4 + J < 17, I * 4 % 3 <= K * 2 + J, K * 2 + J < I * 4 % 3 + 9)
    assert Analyzer(EXTENTS).simplify(all_of(*edges)) is all_of(*edges)
    assert not assumed
    Analyzer(EXTENTS).simplify(all_of(*edges, K * 2 + J < I * 4 % 3 + 11))
    assert assumed  # which follows


def test_drawn_points_show_what_no_point_is_moved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a copy that begin within sectors: quotients of the sum of two loops."""
    monkeypatch.setattr(Analyzer, "branch", None)  # nothing is assumed
    x = I * 32 + J
    edges = (K * 4 + x // 20 < 13, x // 20 * 5 % 16 <= x % 20, x % 20 < x // 20 * 5 % 16 + 9)
    analyzer = Analyzer({I: 5, J: 32, K: 3})
    assert analyzer.simplify(all_of(*edges)) is all_of(*edges)


def test_drawn_points_are_within_all_that_is_known() -> None:
    """And spread over it: four of the five values of I are below 4, and three not below 2."""
    asked = [I < 4, 2 <= I, 5 <= I, I < 0]
    shares = drawn_truths(Analyzer(EXTENTS), asked).sum(1) / DRAWN
    assert abs(shares - [0.8, 0.6, 0.0, 0.0]).max() < 0.01
    assert drawn_truths(knowing(I + J < 6), asked) is None
    assert drawn_truths(Analyzer({J: 4}), asked) is None


def test_a_point_is_moved_to_what_is_known() -> None:
    analyzer = knowing(I * 4 + J >= 7)
    assert shows_least(analyzer.facts, analyzer.linear(K), 0)
    (point,) = analyzer.facts.points
    assert point.of(K) == 0
    assert point.of(I * 4 + J) >= 7
    assert not shows_least(analyzer.facts, analyzer.linear(I + J), 1)  # 2 is the least


def test_points_where_something_new_does_not_hold_are_forgotten() -> None:
    analyzer = knowing(I * 4 + J >= 7)
    assert shows_least(analyzer.facts, analyzer.linear(K), 0)
    more = analyzer.assuming(I + K * 4 >= 9)
    assert analyzer.facts.points
    assert not more.facts.points
    assert more.bounds(K) == (2, 5)


def test_most_searches_for_what_is_not_so_do_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    whole = bounds._Search.run
    monkeypatch.setattr(
        bounds._Search, "run", lambda *asked: begun.append(asked) or whole(*asked)
    )
    analyzer = knowing(all_of(I * 4 + J >= 7, I + K < 8))
    for e in (I, J, K, J * 3 - K, J + K * 2, K - J, I % 3 + J):
        analyzer.prove(e * 8 + J * 2 - K >= 50)
    assert not begun
