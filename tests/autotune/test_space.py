"""Spaces: sampling, moving and encoding candidates of several sketches."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from autotune.choices import Categorical, ImperfectTile, PerfectTile
from autotune.space import Candidate, Infeasible, Sketch, Space
from tensorir import TensorIRError


def small_inner(decisions):
    if decisions["i"][-1] > 16:
        raise Infeasible("inner tile above 16")
    return True


TILED = Sketch(
    "tiled",
    (PerfectTile("i", 64, 3), PerfectTile("j", 48, 2), Categorical("unroll", (0, 16))),
    lambda decisions: ("tiled", dict(decisions)),
    small_inner,
)
PADDED = Sketch(
    "padded",
    (ImperfectTile("j", 50, 3, (4, 6, 8)), Categorical("unroll", (0, 16, 64))),
    lambda decisions: ("padded", dict(decisions)),
)
PLAIN = Sketch("plain", (), lambda decisions: ("plain", {}))


@pytest.fixture
def space():
    return Space([TILED, PADDED, PLAIN])


def test_samples_are_feasible_and_cover_the_sketches(space):
    rng = random.Random(0)
    samples = [space.sample(rng) for _ in range(200)]
    assert {c.sketch for c in samples} == {"tiled", "padded", "plain"}
    assert all(space.contains(c) for c in samples)
    assert all(c.values[0][-1] <= 16 for c in samples if c.sketch == "tiled")
    assert space.sample(rng, "plain") == Candidate("plain", ())


def test_candidates_survive_json(space):
    rng = random.Random(0)
    for _ in range(30):
        candidate = space.sample(rng)
        assert Candidate.from_json(json.loads(json.dumps(candidate.as_json()))) == candidate
        assert json.loads(candidate.key) == json.loads(json.dumps(candidate.as_json()))


def test_mutation_and_crossover_stay_in_the_space(space):
    rng = random.Random(0)
    for _ in range(200):
        a, b = space.sample(rng), space.sample(rng)
        mutant = space.mutate(a, rng)
        assert space.contains(mutant)
        assert mutant != a or a.sketch == "plain"
        child = space.crossover(a, b, rng)
        assert space.contains(child)
        assert child.sketch == a.sketch or a.sketch == "plain"


def test_crossover_takes_each_value_from_a_parent():
    space = Space([PADDED])
    a = Candidate("padded", ((1, 4), 0))
    b = Candidate("padded", ((1, 8), 64))
    children = {space.crossover(a, b, random.Random(seed)) for seed in range(20)}
    assert children == {Candidate("padded", ((1, 4), 64)), Candidate("padded", ((1, 8), 0))}


def test_crossover_of_sketches_keeps_only_what_fits(space):
    a = Candidate("tiled", ((4, 4, 4), (6, 8), 0))
    b = Candidate("padded", ((1, 4), 16))
    children = {space.crossover(a, b, random.Random(seed)) for seed in range(5)}
    assert children == {Candidate("tiled", ((4, 4, 4), (6, 8), 16))}


def test_neighbours_differ_in_one_choice(space):
    origin = Candidate("tiled", ((4, 2, 8), (6, 8), 0))
    near = space.neighbors(origin)
    assert len(set(near)) == len(near) > 5
    for candidate in near:
        assert space.contains(candidate)
        assert sum(v != w for v, w in zip(candidate.values, origin.values)) == 1


def test_encodings_have_one_length_and_tell_candidates_apart(space):
    rng = random.Random(0)
    seen = {space.sample(rng) for _ in range(100)}
    rows = {c: space.encode(c) for c in seen}
    assert {row.shape for row in rows.values()} == {rows[next(iter(rows))].shape}
    assert len({row.tobytes() for row in rows.values()}) == len(seen)
    assert next(iter(rows.values())).dtype == np.float32


def test_build_gets_decisions_by_name(space):
    built = space.build(Candidate("padded", ((1, 4), 16)))
    assert built == ("padded", {"j": (1, 4), "unroll": 16})


def test_membership(space):
    assert not space.contains(Candidate("tiled", ((4, 4, 4), (6, 8))))
    assert not space.contains(Candidate("tiled", ((2, 1, 32), (6, 8), 0)))
    assert not space.contains(Candidate("tiled", ((4, 4, 3), (6, 8), 0)))
    assert not space.contains(Candidate("other", ()))


def test_same_seed_same_candidates(space):
    def walk(seed):
        rng = random.Random(seed)
        path = [space.sample(rng)]
        for _ in range(20):
            path.append(space.crossover(space.mutate(path[-1], rng), space.sample(rng), rng))
        return path

    assert walk(3) == walk(3) != walk(4)


def test_nothing_feasible_is_an_error_that_counts_the_reasons():
    def never(decisions):
        if decisions["unroll"]:
            raise Infeasible("too much code")
        return False

    hopeless = Sketch("hopeless", PADDED.choices, PADDED.build, never)
    with pytest.raises(TensorIRError, match=r"'hopeless'.* x too much code, \d+ x infeasible"):
        Space([hopeless]).sample(random.Random(0))
    both = Space([hopeless, PADDED])
    rng = random.Random(0)
    assert {both.sample(rng).sketch for _ in range(20)} == {"padded"}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda s: Space([]), "sketches of different names"),
        (lambda s: Space([PLAIN, PLAIN]), "sketches of different names"),
        (lambda s: s.build(Candidate("nope", ())), "no sketch 'nope'; sketches are 'tiled'"),
        (lambda s: s.mutate(Candidate("tiled", ()), random.Random(0)), "belongs to another space"),
        (lambda s: Candidate.from_json(["a"]), "is not a candidate"),
        (
            lambda s: Sketch("x", (Categorical("a", (1,)), Categorical("a", (1,))), print),
            "two choices named 'a'",
        ),
    ],
)
def test_errors(space, act, message):
    with pytest.raises(TensorIRError, match=message):
        act(space)
