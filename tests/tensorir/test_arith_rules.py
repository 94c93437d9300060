"""Every row of the rule tables, at every point of small boxes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorir.arith import Analyzer
from tensorir.arith.divmod import DIV_RULES, MOD_RULES, DivRule
from tensorir.arith.linear import Linear, to_expr
from tensorir.arith.rules import RULES, Rule, apply_rules
from tensorir.expr import BinOp, Cast, Const, Expr, Select, Var, int_value
from tensorir.text.printer import format_expr
from tensorir.visit import substitute, variables
from tests.tensorir.arith_oracle import box, evaluate

X, Y = Var("x"), Var("y")
RANGES = {X: range(-3, 5), Y: range(0, 4)}
BOX = box(RANGES)
COEFFICIENTS = (-6, -1, 1, 2, 3, 4, 6, 8)
DIVISORS = (1, 2, 3, 4, 6, 8)


def analyzer() -> Analyzer:
    an = Analyzer()
    for var, values in RANGES.items():
        an.bind_range(var, values.start, values.stop - 1)
    return an


def dividends() -> list[Linear]:
    """Sums of one and two atoms, among them quotients, remainders and exclusive ors."""
    atoms: list[Expr] = [X, Y, X // 2, X % 4, X // 3, X % 6, X ^ Y, X % 4 ^ Y // 2]
    single = [Linear({a: t}, k) for a in atoms for t in COEFFICIENTS for k in (-5, 0, 3)]
    pairs = itertools.product((X, X % 4, X // 2), COEFFICIENTS, COEFFICIENTS, (-1, 0, 5))
    return single + [Linear({a: s, Y: t}, k) for a, s, t, k in pairs]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("op", "rule"),
    [("//", row) for row in DIV_RULES] + [("%", row) for row in MOD_RULES],
    ids=lambda value: value.text if isinstance(value, DivRule) else value,
)
def test_row_of_division(op: str, rule: DivRule) -> None:
    an = analyzer()
    applied = 0
    for x in dividends():
        values = evaluate(to_expr(x), BOX)
        for c in DIVISORS:
            result = rule.apply(an, x, c)
            if result is None:
                continue
            applied += 1
            expected = values // c if op == "//" else values % c
            assert np.all(evaluate(to_expr(result), BOX) == expected), (x, c, result)
    assert applied > 5


def instances(rule: Rule) -> list[tuple[Expr, dict[Var, np.ndarray]]]:
    """The pattern of a row with its constants filled in, and the points to look at."""
    names = sorted(variables(rule.pattern), key=lambda v: v.name)
    constants = [v for v in names if v.name in ("k", "l")]
    free = [v for v in names if v not in constants]
    found = []
    for dtype in ("int64",) if names[0].dtype == "int64" else ("int8", "uint8", "int32"):
        moved = {v: Var(v.name, v.dtype if v.dtype == "bool" else dtype) for v in names}
        env = box({moved[v]: range(2) if v.dtype == "bool" else range(0, 120, 7) for v in free})
        for values in itertools.product((0, 1, 3, 7, 100), repeat=len(constants)):
            fill: dict[Var, Expr] = {moved[v]: Const(k, dtype) for v, k in zip(constants, values)}
            found.append((substitute(retyped(rule.pattern, dtype), fill), env))
    return found


def retyped(e: Expr, dtype: str) -> Expr:
    if isinstance(e, Var):
        return e if e.dtype == "bool" else Var(e.name, dtype)
    if isinstance(e, BinOp):
        return BinOp(e.op, retyped(e.a, dtype), retyped(e.b, dtype))
    if isinstance(e, Select):
        return Select(e.cond, retyped(e.a, dtype), retyped(e.b, dtype))
    return e


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: format_expr(rule.pattern))
def test_row_of_nodes(rule: Rule) -> None:
    applied = 0
    for e, env in instances(rule):
        result = apply_rules(e)
        applied += result is not e
        assert result.dtype == e.dtype
        expected, found = evaluate(e, env), evaluate(result, env)
        assert np.all(expected == found), format_expr(e)
    assert applied


def test_rows_do_not_match_what_they_do_not_mean() -> None:
    narrow = Var("a", "int32")
    kept = [narrow << 2, X >> 70, X & 6, narrow - Var("b", "int32"), X & Y]
    for e in kept:
        assert apply_rules(e) is e


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_narrow_arithmetic_is_not_taken_as_unbounded(dtype: str) -> None:
    a = Var("a", dtype)
    top = np.array([np.iinfo(dtype).max], dtype=dtype)
    for e in (a + 1 < a, a * 2 // 2, (a + 3) % 3, Cast("int64", a + 1) - 1):
        result = Analyzer().simplify(e)
        assert np.all(evaluate(e, {a: top}) == evaluate(result, {a: top})), format_expr(e)


def test_narrow_values_have_the_limits_of_their_type() -> None:
    a = Var("a", "uint8")
    assert Analyzer().bounds(a) == (0, 255)
    assert Analyzer().bounds(Cast("int64", a) * 2 + 1) == (1, 511)
    assert Analyzer().bounds(a + 1) == (0, 255)
    assert Analyzer({a: 10}).bounds(a + 1) == (1, 10)
    assert Analyzer().bounds(Cast("int64", Var("u", "uint64"))) == (None, None)
    assert int_value(Analyzer().simplify(Cast("int64", a) // 256)) == 0
