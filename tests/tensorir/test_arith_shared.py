"""Answers that analyzers share: whoever was asked before, and whatever that one knew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.arith import Analyzer, shared
from tensorir.expr import Expr, Var
from tests.tensorir.arith_oracle import conditions, index_exprs

I, J, K = (Var(name) for name in "ijk")  # noqa: E741
INDEX = index_exprs([I, J, K], bits=True)
CONDITION = conditions([I, J, K])


def told(cond: Expr) -> list[Callable[[], Analyzer]]:
    """Analyzers that know different things of the same variables."""

    def ranges(*extents: int) -> Analyzer:
        return Analyzer(dict(zip((I, J, K), extents)))

    def least() -> Analyzer:
        analyzer = Analyzer({J: 4})
        analyzer.bind_sizes([(I, 1), (K, None)])
        return analyzer

    return [
        lambda: ranges(5, 4, 6),
        lambda: ranges(64, 4, 6),
        lambda: ranges(5, 4),
        Analyzer,
        least,
        lambda: ranges(5, 4, 6).assuming(cond),
        lambda: ranges(5, 4, 6).branch(cond),
        lambda: Analyzer({I: 5, J: I + 1, K: 6}),
    ]


@settings(max_examples=70, deadline=None, derandomize=True)
@given(INDEX | CONDITION, CONDITION, st.permutations(range(8)))
def test_who_was_asked_before_changes_no_answer(e: Expr, cond: Expr, order: list[int]) -> None:
    alone = []
    for make in told(cond):
        shared.forget()
        alone.append((make().simplify(e), make().bounds(e)))
    shared.forget()
    makers = told(cond)
    for n in order:
        simplified, bounds = alone[n]
        assert makers[n]().simplify(e) is simplified and makers[n]().bounds(e) == bounds


def test_who_knows_the_same_of_the_variables_asks_once():
    asked = []

    def question(_: Analyzer, e: Expr) -> Expr:
        asked.append(e)
        return e

    e = (I * 4 + J) // 4
    for analyzer in (Analyzer({I: 7, J: 4}), Analyzer({K: 3, J: 4, I: 7})):
        assert shared.shared(analyzer, question, e) is e
    assert len(asked) == 1
    assert shared.shared(Analyzer({I: 8, J: 4}), question, e) is e
    assert shared.shared(Analyzer({I: 7, J: 4}).assuming(I < J), question, e) is e
    assert len(asked) == 3


def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared, "ANSWERS", 3)
    shared.forget()
    for n in range(8):
        assert Analyzer({I: 40}).simplify((I + n) // (n + 50)) is not None
        assert shared.kept() <= 3
