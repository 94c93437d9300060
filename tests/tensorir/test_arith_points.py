"""Points end searches for bounds that are not there, and no other search."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer, bounds, logic
from tensorir.arith.points import shows_least
from tensorir.expr import Expr, Var, all_of, any_of
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
    for joined in (all_of(*parts), any_of(*parts)):
        found = knowing(said).simplify(joined)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logic, "is_open", lambda *asked: False)
            assert found is knowing(said).simplify(joined)


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
    Analyzer(EXTENTS).simplify(all_of(*edges, I < 4))
    assert assumed  # I < 4 does not follow, but no point shows all of it


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
