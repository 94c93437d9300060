"""What is known of digits without a search, and what conditions that say nothing new cost."""

from __future__ import annotations

import itertools
import random

import pytest

from tensorir.arith import Analyzer
from tensorir.arith.regions.iter_map import decompose, determines
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, all_of, const

F, J, N = Var("f"), Var("j"), Var("n")


def digit(rng: random.Random, var: Var) -> Expr:
    found: Expr = var // rng.choice((1, 2, 3, 4, 6, 8))
    modulus = rng.choice((None, 2, 3, 4, 6, 16))
    return found if modulus is None else found % modulus


def value(e: Expr, f: int, j: int) -> int:
    return int(eval(repr(e), {"f": f, "j": j}))


@pytest.mark.parametrize("seed", range(8))
def test_sums_that_are_not_refined_take_the_sum_of_their_bounds(seed: int) -> None:
    """Whatever the digits: overlapping ones, such of extents that do not divide, twice the same."""
    rng = random.Random(seed)
    exact = 0
    for _ in range(60):
        extents = {F: rng.choice((5, 16, 18, 24, 48)), J: rng.choice((1, 4, 7))}
        an = Analyzer(extents)
        parts = [digit(rng, rng.choice((F, F, J))) for _ in range(3)]
        e = sum((part * rng.choice((-32, -7, -1, 1, 4, 50)) for part in parts), F * 0)
        points = itertools.product(range(extents[F]), range(extents[J]))
        found = [value(e, f, j) for f, j in points]
        low, high = an.bounds(e)
        assert low is not None and high is not None
        assert low <= min(found) and max(found) <= high
        if not an.may_refine(an.linear(e)):
            exact += 1
            assert (low, high) == (min(found), max(found)), (e, extents)
    assert exact > 10


def test_digits_that_fill_their_places_are_independent() -> None:
    whole, rest = Analyzer({F: 32}), Analyzer({F: 30})
    e = F // 8 * 64 + F % 4
    assert not whole.may_refine(whole.linear(e)) and rest.may_refine(rest.linear(e))
    related = whole.assuming(F % 4 + J < F // 8 + N)
    assert related.may_refine(related.linear(e))


def test_a_condition_that_ranges_say_already_forgets_nothing() -> None:
    an = Analyzer({F: 32, J: 4})
    e = F // 4 * 16 + J * 4 + F % 4
    an.simplify(e)
    said = all_of(F < 32, 0 <= F // 4, e < 128, e <= 127)
    known = an.assuming(said)
    assert known.forms is an.forms
    told = an.assuming(all_of(said, J < 3))
    assert told.forms is not an.forms and told.bounds(J) == (0, 2)
    assert told.simplify(said) is an.simplify(said)


def test_answers_are_forgotten_where_more_is_known() -> None:
    an = Analyzer({F: 32, J: 4})
    inner = {F: 32, J: 4}
    assert determines((F % 4 * 4 + J,), J, inner, an)
    assert not determines((F % 4 * 4 + J,), F, inner, an)
    assert decompose(F // 4, inner, an) == decompose(F // 4, inner, an)
    less = an.assuming(F < 4)
    assert determines((F % 4 * 4 + J,), F, inner, less)
    assert not determines((F % 4 * 4 + J,), F, inner, an)
    assert decompose(F // 4, inner, an) != decompose(F // 4, inner, less)


def test_remainders_and_quotients_of_what_is_read_from_memory_are_joined() -> None:
    found = Load(Buffer("A", (const(4),), "int64"), (const(0),))
    assert Analyzer().simplify(found // 4 * 4 + found % 4) is found
