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


def values(e: Expr, extents: dict[Var, int]) -> list[int]:
    """Of an expression of f and j, wherever they may be."""
    code = compile(repr(e), "e", "eval")
    points = itertools.product(range(extents[F]), range(extents[J]))
    return [eval(code, {"f": f, "j": j}) for f, j in points]


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
        found = values(e, extents)
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


TILES = [(48, 7, 8), (24, 5, 4), (12, 3, 3), (60, 7, 6)]


@pytest.mark.parametrize(("tile", "wide", "short"), TILES)
def test_digits_of_a_tile_of_several_axes_are_its_place(tile: int, wide: int, short: int) -> None:
    """Also where the last digits are those of the tile alone: 48*t + i is 56 * (...) + 8 * ((6*t +
    i//8) % 7) + i % 8, so that a tile has as many elements as its axes say."""
    an = Analyzer({N: 9, J: tile})
    place = N * tile + J
    rows = (place // (wide * short) * wide + place // short % wide) * short + place % short
    assert an.simplify(rows) is an.simplify(place)
    assert an.simplify(rows - place) is const(0)


@pytest.mark.parametrize("seed", range(4))
def test_quotients_and_remainders_are_joined_only_where_they_are_of_one_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        extents = {F: rng.choice((5, 9)), J: rng.choice((12, 24, 30))}
        an = Analyzer(extents)
        d, c = rng.choice((2, 3, 4)), rng.choice((3, 5, 7))
        steps = rng.choice((1, 3, d * 2, d * c)), rng.choice((1, 2, 3))
        rest = (F * steps[1] + J // d) % c * rng.choice((1, d))
        e = (F * steps[0] + J) // (c * d) * rng.choice((c, c * d)) + rest + J % d
        assert values(an.simplify(e), extents) == values(e, extents)


@pytest.mark.parametrize(("low", "count"), [(1, 2), (1, 8), (4, 2), (2, 4)])
def test_digits_of_a_sum_are_joined_whatever_their_remainders_leave_out(
    low: int, count: int
) -> None:
    """Of (f % 8 + j) // 8 the remainder is (f + j) % 8, without the inner one."""
    extents = {F: 30, J: 7}
    an = Analyzer(extents)
    x = F % (low * count) + J * 3
    whole = x // (low * count) * count + x % (low * count) // low
    joined = an.simplify(whole)
    assert joined is an.simplify(x // low)
    assert an.prove(whole < -(-(low * count + 18) // low))
    assert values(joined, extents) == values(whole, extents)


PLACES = (
    F * 40 + J,
    J * 9 + F // 4 * 576 + F % 2 * 288,
    J * 9 + F // 4 * 576 + N * 288,
    F % 4 * 280 + J + F // 4 * 1200,
    F % 4 * 280 + J * 40 + F // 4 * 1200,
    J * 3 + F // 4 * 36 + N * 18,
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("lanes", "warps"), [(32, 8), (8, 4)])
def test_what_threads_take_in_turn_is_where_it_is(place: Expr, lanes: int, warps: int) -> None:
    """Whether its axes are variables or digits of some: turn and thread tell the place, and no turn
    is later than that of the last one."""
    an, width = Analyzer({F: 30, J: 13, N: 2}), lanes * warps
    turn = place // width * warps + place % width // lanes
    assert an.simplify(turn * lanes + place % width % lanes - place) is const(0)
    assert an.bounds(turn) == an.bounds(place // lanes)


@pytest.mark.parametrize("seed", range(2))
def test_digits_side_by_side_are_one(seed: int) -> None:
    """Also where the lower one is of another sum, equal to the first but for the digits above; with
    another factor, or another sum, they stay as they are."""
    rng = random.Random(seed)
    extents = {F: 29, J: 3}
    an = Analyzer(extents)
    for _ in range(40):
        d, c, m = (rng.choice((1, 2, 3, 4, 6)), rng.choice((2, 3, 4)), rng.choice((None, 2, 5)))
        t, near = rng.choice((-3, 1, 2)), rng.random() < 0.25
        x = F * rng.choice((1, 7, d * c + 1)) + J * rng.choice((0, 1, 5)) - rng.choice((0, 11))
        y = x + J * (d * c * rng.choice((-1, 0, 2))) + (near and rng.choice((0, 1)))
        above, both = x // (d * c), x // d
        if m is not None:
            above, both = above % m, both % (m * c)
        e = above * (t * c + near) + y // d % c * t + J * 50
        found = an.simplify(e)
        assert values(found, extents) == values(e, extents), (e, found)
        if not near:
            one = an.simplify(both * t + J * 50)
            assert len(an.linear(found).terms) <= len(an.linear(one).terms), (e, found, one)
