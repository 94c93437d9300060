"""Bindings that the predicate of a block keeps in range by what it says, or by what that leaves of
other terms: found without taking it as known, and only where it is true."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorir.arith import Analyzer
from tensorir.arith.exhaustive import values_at
from tensorir.expr import Expr, Var, all_of, const
from tensorir.text.parser import parse
from tensorir.verifier.bounds import of_variables, said_by, said_inside
from tensorir.verifier.ranges import check_ranges

L, J, K = (Var(name) for name in "ljk")
EXTENTS = {L: 5, J: 7, K: 3}


def some_index(rng: random.Random) -> Expr:
    """A sum of multiples of loops, and of quotients and remainders of some."""
    found: Expr = const(rng.randint(-4, 4))
    for var in rng.sample((L, J, K), rng.randint(1, 3)):
        part = rng.choice((var, var, var // 2, (var * 3 + L) % 4, (var + J) // 3))
        found = found + part * rng.choice((-3, -1, 1, 2, 6))
    return found


def some_condition(rng: random.Random, index: Expr, size: int) -> Expr:
    """What may keep the index in range, or nearly, a multiple of it, or something else."""
    about = rng.choice((index, index, index * 2, index + K, some_index(rng)))
    low, high = rng.choice((-1, 0, 0, 1)), size + rng.choice((-1, 0, 0, 1))
    return rng.choice((about >= low, about < high, all_of(about >= low, about < high)))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_to_be_inside_is(seed: int) -> None:
    rng, told = random.Random(seed), 0
    points = {var: np.arange(n).reshape([-1 if v is var else 1 for v in EXTENTS])
              for var, n in EXTENTS.items()}  # fmt: skip
    for _ in range(150):
        index, size = some_index(rng), rng.randint(1, 20)
        cond = all_of(*[some_condition(rng, index, size) for _ in range(rng.randint(0, 3))])
        analyzer = Analyzer(EXTENTS)
        said = said_by(cond, analyzer)
        if not said_inside(const(size), index, analyzer, said.values()):
            continue
        value, holds = values_at(index, points), values_at(cond, points)
        assert np.all(~np.asarray(holds, bool) | ((0 <= value) & (value < size))), (index, cond)
        told += bool(said)
    assert told > 5


def test_what_is_said_of_variables_alone() -> None:
    plain, parts = L * 4 + J < 9, (L + J) // 2 < 3
    said = said_by(all_of(plain, parts), Analyzer(EXTENTS))
    assert of_variables(said) is plain


CASES = {
    "as it is said": ("i * 8 + j", 30, "i * 8 + j < 30"),
    "beside what is never negative": ("i * 8 + j - j % 3", 30, "j % 3 <= j and i * 8 + j < 30"),
    "a multiple": ("i * 8 + j", 24, "i < 3"),
    "both ends": ("i * 8 + j - 5", 20, "5 <= i * 8 + j and i * 8 + j < 25"),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_taken_as_known_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index, size, cond = CASES[name]
    func = parse(f"""
def f(A: f32[{size}], B: f32[{size}]):
    for i, j in grid(5, 8):
        with block("B"):
            v = spatial({size}, {index})
            where({cond})
            B[v] = A[v]
""")

    def assume(*_: object) -> Analyzer:
        raise AssertionError("something is taken as known")

    monkeypatch.setattr(Analyzer, "_assume", assume)
    check_ranges(func)


def test_conditions_of_several_loops_count_together() -> None:
    """Where neither says it by itself, all is taken as known, as before."""
    text = """
def f(A: f32[{size}], B: f32[{size}]):
    for i, j in grid(7, 9):
        with block("B"):
            v = spatial({size}, i + j)
            where(i < 3 and j < 4)
            B[v] = A[v]
"""
    check_ranges(parse(text.format(size=6)))
    with pytest.raises(Exception, match="can be 5"):
        check_ranges(parse(text.format(size=5)))
