"""Proofs by trying all values: right where they succeed, and given up where they cannot be made."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tensorir import Analyzer, Var, cast, const, int_value, maximum, parse, select, substitute
from tensorir.arith import connected, few_values, holds_everywhere
from tensorir.arith.exhaustive import POINTS

X, J, K, N = Var("i"), Var("j"), Var("k"), Var("n")


def test_a_fused_loop_under_its_predicate():
    """No rule sees this: f // 2 % 7 < 2 leaves f % 14 below 4."""
    an = Analyzer({X: 42}).assuming(X // 2 % 7 < 2)
    goal = X // 14 * 4 + X % 14 < 12
    assert not an.prove(goal) and holds_everywhere(an, goal)
    assert not holds_everywhere(an, X // 14 * 4 + X % 14 < 11)
    assert not holds_everywhere(Analyzer({X: 42}), goal)


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_evaluation(seed):
    rng = random.Random(seed)
    extents = {var: rng.choice([0, 1, 2, 3, 5]) for var in (X, J, K)}

    def term(depth):
        if depth == 0:
            return rng.choice([X, J, K, const(rng.randrange(-3, 6))])
        a, b = term(depth - 1), term(depth - 1)
        return rng.choice(
            [a + b, a - b, a * b, a // rng.choice([-2, 1, 3]), a % 4, maximum(a, b),
             select(a < b, a, b + 1)]
        )  # fmt: skip

    given, goal = term(2) <= term(1), term(3) < term(2)
    an = Analyzer(extents).assuming(given)
    truth = True
    for values in product(*[range(n) for n in extents.values()]):
        env = {var: const(n) for var, n in zip(extents, values)}
        if int_value(substitute(given, env)):
            truth = truth and bool(int_value(substitute(goal, env)))
    assert holds_everywhere(an, goal) == truth


def test_gives_up():
    an = Analyzer({X: 4, J: N, K: POINTS + 1})
    assert not holds_everywhere(an, N < N + 1)
    assert not holds_everywhere(an, J < J + 1)
    assert not holds_everywhere(an, K < K + 1)
    assert not holds_everywhere(an, 4 // X < 5)
    assert not holds_everywhere(an, X * (1 << 61) < 1 << 62)
    assert not holds_everywhere(an, cast("int8", X) < const(9, "int8"))
    loads = parse("@prim_func\ndef f(A: i64[4], B: i64[4]):\n    for i in range(4):\n"
                  "        B[i] = A[i]").body.body.value  # fmt: skip
    assert not holds_everywhere(an, loads < loads + 1)
    assert holds_everywhere(an, X < 4)


def test_a_condition_that_cannot_be_tried_is_left_out():
    an = Analyzer({X: 4, J: N}).assuming(X < J).assuming(X < 3)
    assert holds_everywhere(an, X * X < 9 - X + 2)
    assert not holds_everywhere(an, X < 2)


def test_which_values_matter():
    assert connected([X], [X < J, J < K, N < 3]) == {X, J, K}
    assert connected([N], [X < J]) == {N}
    assert few_values([X, J], {X: const(POINTS), J: const(1)})
    assert not few_values([X, J], {X: const(POINTS), J: const(2)})
    assert not few_values([X, J], {X: const(0)})
    assert few_values([], {})
