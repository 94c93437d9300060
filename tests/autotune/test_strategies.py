"""All strategies: reproducible, taken up again anywhere, and sound at the edges of a space."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune.choices import Categorical, ImperfectTile, PerfectTile, values_of
from autotune.cost_model import make_cost_model
from autotune.search import STRATEGIES, Proposals, SearchState, register_strategy, search_named
from autotune.search.annealing import Annealing
from autotune.search.annealing import propose as anneal
from autotune.search.descent import SIGNIFICANT, walks
from autotune.search.genetic import Genetic
from autotune.search.genetic import propose as breed
from autotune.search.grid import spread
from autotune.space import Candidate, Sketch, Space
from schedule import Refusal
from tensorir import TensorIRError

NAMES = sorted(STRATEGIES)


def space_of(*sizes, refused=()):
    """A sketch with a choice of numbers for each size; a refused value has no program."""

    def build(values):
        if any(value in refused for value in values.values()):
            raise Refusal("refused: no such program")
        return values

    choices = [Categorical(f"c{at}", tuple(range(size))) for at, size in enumerate(sizes)]
    return Space([Sketch("s", tuple(choices), build)])


def state_of(space, **more):
    model = make_cost_model("random")
    extract = lambda values: np.array(list(values.values()), dtype=np.float32)  # noqa: E731
    return SearchState(model, extract, **more)


def bowl(candidate):
    """Seconds: the least at 3, 3, ..."""
    return 1.0 + 0.2 * sum((value - 3) ** 2 for value in candidate.values)


def search(space, name, trials, measure=bowl, batch=4, until=None):
    """The state after so many trials, taken up again after each batch by another state."""
    measured = {}
    while len(measured) < trials:
        state = state_of(space)
        for candidate, seconds in measured.items():
            state.add(candidate, seconds)
        rng = random.Random(len(measured))
        found = search_named(name)(space, state, batch, rng)
        again = search_named(name)(space, state, batch, random.Random(len(measured)))
        assert found == again and len(set(found)) == len(found) <= batch
        if not found:
            break
        for candidate in found:
            assert candidate not in measured and space.contains(candidate)
            measured[candidate] = measure(candidate)
    return measured


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(), (1,), (1, 1), (3,), (2, 3)])
def test_a_space_smaller_than_a_batch_is_used_up(name, sizes):
    space = space_of(*sizes)
    assert len(search(space, name, 99, batch=8)) == space.size()


@pytest.mark.parametrize("name", NAMES)
def test_everything_may_fail(name):
    assert set(search(space_of(5, 5), name, 12, lambda candidate: None).values()) == {None}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_is_no_proposal(name):
    found = search(space_of(6, 6, refused=(0, 2)), name, 16)
    assert len(found) == 16 and not any({0, 2} & set(c.values) for c in found)


@pytest.mark.parametrize("name", ["annealing", "descent", "evolutionary", "genetic"])
def test_what_looks_at_times_finds_the_least_of_a_bowl(name):
    best = {n: min(search(space_of(9, 9, 9), n, 80).values()) for n in (name, "random")}
    assert best[name] <= min(best["random"], 1.2)


def test_the_grid_is_spread_evenly_wherever_it_stops():
    assert [spread(place) for place in range(6)] == [0, 0.5, 0.25, 0.75, 0.125, 0.625]
    found = list(search(space_of(8, 8), "grid", 8))
    assert sorted(c.values[0] for c in found) == list(range(8))
    whole = search(space_of(4, 5), "grid", 99)
    assert len(whole) == 20


def test_values_of_a_choice_are_all_of_them():
    for choice in (
        PerfectTile("a", 48, 3), PerfectTile("a", 7, 2, max_inner=1), PerfectTile("a", 1, 2),
        ImperfectTile("b", 10, 3, (1, 4)), Categorical("c", ("x", (1, 2), None)),
    ):  # fmt: skip
        values = values_of(choice)
        assert len(values) == choice.size() == len(set(values))
        assert all(map(choice.contains, values))


def test_places_of_a_grid():
    sketch = Sketch("s", (Categorical("a", (1, 2)), Categorical("b", (1, 2, 3))), dict)
    places = [sketch.at((place + 0.5) / 6) for place in range(6)]
    assert len(set(places)) == 6 and sketch.at(0.0) == places[0]
    assert Sketch("none", (), dict).at(0.7) == ()


def test_generations_follow_from_the_number_of_trials():
    space, state = space_of(50, 50), state_of(None)
    settings = Genetic(population=8, elites=2, mutation=0.0)
    fathers = [Candidate("s", (1, 2)), Candidate("s", (3, 4))]
    for candidate in fathers:
        state.add(candidate, 1e-3)
    for at in range(6):  # failures have no children
        state.add(Candidate("s", (10 + at, 10 + at)), None)
    found = breed(space, state, 2, random.Random(0), settings)
    assert {c.values for c in found} == {(1, 4), (3, 2)}


def test_annealing_walks_on_only_to_what_it_takes():
    space, cold = space_of(50, 50), Annealing(start=1e-9)
    state = state_of(space)
    state.add(Candidate("s", (7, 7)), 1.0)
    state.add(Candidate("s", (20, 20)), 1.1)
    near = anneal(space, state, 6, random.Random(0), cold)
    assert all(7 in c.values for c in near[:3])
    hot = anneal(space, state, 6, random.Random(0), Annealing(start=1e9))
    assert any(20 in c.values for c in hot)


def test_descent_takes_no_step_within_the_noise():
    space, state = space_of(9, 2), state_of(None)
    here, near = Candidate("s", (4, 0)), Candidate("s", (5, 0))
    state.add(here, 1.0)
    state.add(near, 1.0 - SIGNIFICANT / 2)
    around = {c for found in walks(space, state) for c in found}
    assert around == set(space.neighbors(near)) - {here}
    state.add(Candidate("s", (5, 1)), 0.5)
    assert set(next(walks(space, state))) == {Candidate("s", (v, 1)) for v in range(9) if v != 5}


def test_a_strategy_of_a_user(monkeypatch):
    monkeypatch.setattr("autotune.search.strategies.STRATEGIES", dict(STRATEGIES))

    def first(space, state, count, rng):
        batch = Proposals(space, state, count)
        batch.offer_all(Candidate("s", (value,)) for value in range(9))
        return batch.chosen

    register_strategy("first", first)
    assert [c.values[0] for c in search(space_of(9), "first", 8)] == list(range(8))
    for name, what, message in (
        ("first", first, "'first' already: choose another name"),
        ("no name", first, "an identifier, such as 'greedy', not 'no name'"),
        ("third", 3, "'third' is 3, not a function propose"),
    ):
        with pytest.raises(TensorIRError, match=message):
            register_strategy(name, what)
