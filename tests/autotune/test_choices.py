"""Choices: what they contain, how they sample, and where their neighbours are."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product
from math import ceil, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.choices import (
    TILE_STEPS,
    Categorical,
    ImperfectTile,
    PerfectTile,
    count_factorisations,
    divisors,
    freeze,
    prime_factors,
    values_of,
)
from tensorir import TensorIRError

CHOICES = [
    PerfectTile("i", 1, 3),
    PerfectTile("i", 97, 2),
    PerfectTile("i", 1024, 4, max_inner=16),
    PerfectTile("i", 360, 1),
    ImperfectTile("i", 1000, 4, (4, 6, 8)),
    ImperfectTile("i", 1, 3),
    ImperfectTile("i", 7, 2, (8, 16)),
    ImperfectTile("i", 3, 3, (8, 16)),
    ImperfectTile("i", 97, 3),
    Categorical("unroll", (0, 16, 64)),
    Categorical("pack", ("none", "panel"), (1.0, 3.0)),
]


def enumerate_values(choice):
    if isinstance(choice, Categorical):
        return list(choice.options)
    if isinstance(choice, PerfectTile):
        grids = [divisors(choice.extent)] * choice.parts
    else:
        grids = [choice.steps] * (choice.parts - 2) + [choice.inner]
    return [value for value in product(*grids) if choice.contains(value)]


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_samples_and_neighbours_are_contained_and_survive_json(choice):
    rng = random.Random(0)
    width = len(choice.encode(choice.sample(rng)))
    for _ in range(50):
        value = choice.sample(rng)
        assert choice.contains(value)
        assert freeze(json.loads(json.dumps(value))) == value
        assert len(choice.encode(value)) == width
        near = choice.neighbors(value)
        assert value not in near and len(set(near)) == len(near)
        assert all(choice.contains(n) for n in near)


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_size_counts_the_values(choice):
    assert choice.size() == len(enumerate_values(choice))


@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_every_value_is_reached_by_steps(choice):
    values = enumerate_values(choice)
    reached, edge = {values[0]}, [values[0]]
    while edge:
        fresh = [n for n in choice.neighbors(edge.pop()) if n not in reached]
        reached.update(fresh)
        edge.extend(fresh)
    assert reached == set(values)


def test_perfect_tile_samples_uniformly():
    choice = PerfectTile("i", 12, 3, max_inner=4)
    rng = random.Random(1)
    counts = Counter(choice.sample(rng) for _ in range(4000))
    assert set(counts) == set(enumerate_values(choice))
    expected = 4000 / choice.size()
    assert all(0.6 * expected < n < 1.5 * expected for n in counts.values())


def test_encodings_of_values_differ():
    for choice in CHOICES:
        rows = [tuple(choice.encode(v)) for v in enumerate_values(choice)]
        assert len(set(rows)) == len(rows)


@given(st.integers(1, 5000), st.integers(2, 4), st.integers(0, 99))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_imperfect_tile_bounds_the_padding(extent, parts, seed):
    choice = ImperfectTile("i", extent, parts, (4, 6, 8, 12, 16))
    value = choice.sample(random.Random(seed))
    covered = prod(value)
    waste = ceil(extent / covered) * covered / extent - 1
    best = min(ceil(extent / s) * s / extent - 1 for s in (4, 6, 8, 12, 16))
    assert waste <= max(0.25, best) + 1e-9
    assert choice.outermost(value) * covered >= extent
    assert value[-1] in (4, 6, 8, 12, 16)


def test_imperfect_tile_keeps_six_rows_for_a_power_of_two():
    choice = ImperfectTile("i", 1024, 3, (4, 6, 8))
    assert choice.inner == (4, 6, 8)
    assert choice.contains((8, 6)) and not choice.contains((8, 5))


def test_imperfect_tile_takes_the_least_bad_size_where_none_fits():
    assert ImperfectTile("i", 3, 2, (8, 16)).inner == (8,)
    assert ImperfectTile("i", 7, 2, (8, 16)).inner == (8,)


def test_imperfect_tile_steps_skip_what_does_not_fit():
    choice = ImperfectTile("i", 96, 3, (8,))
    # 8 * 8 and 16 * 8 both cover 128 of 96: a third would be wasted.
    assert choice.neighbors((12, 8)) == [(6, 8)]
    assert not choice.contains((8, 8)) and not choice.contains((16, 8))


def test_levels_of_an_imperfect_tile_are_sampled_evenly():
    choice = ImperfectTile("i", 4096, 3, (4, 16))
    rng = random.Random(0)
    counts = Counter(choice.sample(rng)[0] for _ in range(3000))
    small = sum(n for size, n in counts.items() if size <= 16)
    assert 0.3 < small / 3000 < 0.7


@pytest.mark.parametrize(
    "choice",
    [
        PerfectTile("t", np.int64(12), np.int32(2), np.uint8(4)),
        ImperfectTile("t", np.int16(30), np.int64(3), (np.int64(4), 8), (1, np.int32(2))),
        Categorical("c", (np.bool_(False), np.int8(3), [np.float64(0.5), (np.str_("a"),)])),
    ],
    ids=lambda choice: type(choice).__name__,
)  # fmt: skip
def test_scalars_of_numpy_are_those_of_python(choice):
    for value in values_of(choice):
        assert choice.contains(value) and freeze(json.loads(json.dumps(value))) == value


def test_categorical_weights_bias_samples():
    choice = Categorical("pack", ("none", "panel"), (1.0, 9.0))
    rng = random.Random(0)
    counts = Counter(choice.sample(rng) for _ in range(1000))
    assert counts["panel"] > 5 * counts["none"]


def test_categorical_does_not_mistake_true_for_one():
    assert Categorical("c", (0, 1)).contains(1)
    assert not Categorical("c", (0, 1)).contains(True)
    others = ((False, True), (0, 1), (0.0, 1.0), (-0.0, 1.0), ((0,), (1,)), ((False,), (True,)))
    for options in others:  # what is remembered of one is nothing of another
        found = values_of(Categorical("same", options))
        assert sorted(map(repr, found)) == sorted(map(repr, options))


def test_numbers():
    assert prime_factors(360) == ((2, 3), (3, 2), (5, 1))
    assert prime_factors(1) == () and prime_factors(97) == ((97, 1),)
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    assert count_factorisations(12, 2) == 6
    assert TILE_STEPS[:10] == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerfectTile("i", 0, 2), "extent is 0"),
        (lambda: PerfectTile("i", 8, 0), "parts is 0"),
        (lambda: PerfectTile("i", 8, 2, 0), "max_inner is 0"),
        (lambda: ImperfectTile("i", 8, 1), "at least 2 parts, not 1"),
        (lambda: ImperfectTile("i", 8, 2, ()), "inner is \\(\\)"),
        (lambda: ImperfectTile("i", 8, 2, (0, 4)), "inner is \\(0, 4\\)"),
        (lambda: Categorical("c", ()), "none or not distinct"),
        (lambda: Categorical("c", (1, 1)), "none or not distinct"),
        (lambda: Categorical("c", (1, 2), (1.0,)), "do not match 2 options"),
    ],
)
def test_bad_choices_are_refused(make, message):
    with pytest.raises(TensorIRError, match=message):
        make()
