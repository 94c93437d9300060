"""Search on a synthetic space: better than chance, reproducible, and unimpressed by failures."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from math import log2
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from autotune.choices import Categorical, ImperfectTile, PerfectTile
from autotune.cost_model import make_cost_model
from autotune.rules import choose
from autotune.search import STRATEGIES, Evolution, SearchState, evolutionary, search_named
from autotune.search import random as random_search
from autotune.space import Candidate, Infeasible, Sketch, Space
from schedule import Refusal
from tensorir import Gpu, Target, TensorIRError, te

QUICK = Evolution(builds=80)


def built(name):
    def build(values):
        if name == "tiled" and values["unroll"] == 64 and values["i"][-1] == 8:
            raise Refusal("unroll(64): too much code", "the program follows")
        return SimpleNamespace(sketch=name, values=dict(values))

    return build


TILES = (
    PerfectTile("i", 1024, 3),
    ImperfectTile("j", 1000, 3, (8, 16, 24, 32)),
    Categorical("unroll", (0, 16, 64)),
)
SPACE = Space(
    [
        Sketch("tiled", (*TILES, Categorical("pack", (False, True))), built("tiled")),
        Sketch("plain", TILES, built("plain")),
    ]
)


def features(schedule):
    i, j = schedule.values["i"], schedule.values["j"]
    numbers = [log2(v) for v in (*i, *j)]
    extra = [schedule.values["unroll"] / 16, float(schedule.values.get("pack", 0))]
    return np.array([*numbers, *extra, float(schedule.sketch == "tiled")], dtype=np.float32)


def cost(candidate):
    """Seconds: best at register tile 4 x 24, cache tile 32, packed; the plain sketch is slower."""
    values = SPACE.decisions(candidate)
    (_, i1, i2), (j1, j2) = values["i"], values["j"]
    time = 0.3 * abs(log2(i2) - 2) + 0.2 * abs(log2(j2) - log2(24))
    time += 0.15 * abs(log2(i1 * i2) - 5) + 0.1 * abs(log2(j1) - 3)
    time += 0.2 * (values["unroll"] == 0) - 0.4 * bool(values.get("pack"))
    return 1e-3 * 2 ** (time + (0.8 if candidate.sketch == "plain" else 0))


def crude(rows):
    """A draft that knows the direction of one effect."""
    return 1e-3 * 2 ** (0.1 * np.abs(np.asarray(rows, dtype=np.float64)[:, 2] - 3))


def new_state(kind="xgboost", seed=0, **more):
    return SearchState(make_cost_model(kind, seed=seed, draft=crude), features, **more)


def run(propose, seed, trials=48, batch=8, state=None, measure=cost, **settings):
    state = state or new_state(seed=seed)
    while len(state.measured) < trials:
        rng = random.Random(f"{seed}:{len(state.measured)}")
        count = min(batch, trials - len(state.measured))
        proposed = propose(SPACE, state, count, rng, **settings)
        assert len(proposed) == len(set(proposed)) == count
        for candidate in proposed:
            assert SPACE.contains(candidate) and candidate not in state.measured
            state.add(candidate, measure(candidate))
    return state


@cache
def evolved(seed):
    """The trials of a search, of which several tests ask something: 64 begin with those of 48."""
    return run(evolutionary.propose, seed, 64, settings=QUICK).measured


def guided(seed, trials=48):
    """Seconds of the best that evolution finds."""
    return min(list(evolved(seed).values())[:trials])


def test_evolution_beats_random_search_at_equal_trials():
    ratios = [guided(seed) / run(random_search.propose, seed).best_seconds() for seed in range(3)]
    assert max(ratios) < 1
    assert float(np.mean(ratios)) < 0.9


def test_evolution_comes_close_to_the_optimum():
    best = min(guided(seed, 64) for seed in (0, 1))
    ideal = cost(Candidate("tiled", ((32, 8, 4), (8, 24), 16, True)))
    assert ideal <= best < 1.15 * ideal


def test_a_learned_model_beats_a_random_one():
    blind = []
    for seed in range(3):
        state = new_state("random", seed)
        blind.append(run(evolutionary.propose, seed, state=state, settings=QUICK).best_seconds())
    assert np.mean([guided(seed) for seed in range(3)]) < np.mean(blind)


def test_first_batch_has_the_defaults_and_every_sketch():
    default = Candidate("plain", ((1024, 1, 1), (1, 8), 0))
    state = new_state(defaults=(default,))
    batch = evolutionary.propose(SPACE, state, 8, random.Random(0), QUICK)
    assert batch[0] == default
    assert Counter(c.sketch for c in batch) == {"plain": 4, "tiled": 4}
    assert state.builds <= 80
    assert random_search.propose(SPACE, new_state(defaults=(default,)), 3, random.Random(0))[0] == (
        default
    )


def test_builds_are_bounded_and_remembered():
    state = new_state()
    for trial in range(3):
        before = state.builds
        for candidate in evolutionary.propose(SPACE, state, 8, random.Random(trial), QUICK):
            state.add(candidate, cost(candidate))
        assert state.builds - before <= 80
    built_once = state.builds
    assert all(state.features(SPACE, c) is not None for c in state.measured)
    assert state.builds == built_once


def test_refusals_are_counted_and_never_proposed():
    state = run(evolutionary.propose, 0, 32, settings=QUICK)
    assert set(state.refusals) == {"unroll(64): too much code"}
    refused = [c for c in state.measured if state.features(SPACE, c) is None]
    assert not refused


def test_a_slow_sketch_is_given_up():
    def measure(candidate):
        return 1.0 if candidate.sketch == "plain" else cost(candidate)

    state = run(evolutionary.propose, 0, 48, measure=measure, settings=QUICK)
    assert state.alive(SPACE) == ["tiled"]
    last = list(state.measured)[-8:]
    assert all(c.sketch == "tiled" for c in last)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_failures_are_survived(strategy):
    def flaky(candidate):
        return None if len(candidate.key) % 3 == 0 else cost(candidate)

    found = [run(search_named(strategy), seed, 40, measure=flaky) for seed in range(3)]
    assert all(None in state.measured.values() for state in found)
    assert np.median([state.best_seconds() for state in found]) < 2e-3


def test_everything_failing_does_not_stop_the_search():
    state = run(evolutionary.propose, 0, 24, measure=lambda candidate: None, settings=QUICK)
    assert state.best_seconds() is None and len(state.alive(SPACE)) == 2


def test_rejected_candidates_are_not_proposed_again():
    first = evolutionary.propose(SPACE, new_state(), 8, random.Random(0), QUICK)
    state = new_state()
    for candidate in first[:4]:
        state.reject(candidate)
    again = evolutionary.propose(SPACE, state, 8, random.Random(0), QUICK)
    assert not set(first[:4]) & set(again) and not state.measured


def test_a_small_space_is_used_up():
    small = Space([Sketch("s", (Categorical("a", (1, 2, 3)),), built("plain"))])
    for propose in STRATEGIES.values():
        state = SearchState(
            make_cost_model("random"), lambda s: np.array([s.values["a"]], dtype=np.float32)
        )
        found = propose(small, state, 8, random.Random(0))
        assert {c.values[0] for c in found} == {1, 2, 3}
        for candidate in found:
            state.add(candidate, 1.0)
        assert propose(small, state, 8, random.Random(0)) == []


def test_prediction_of_a_proposal():
    state = run(evolutionary.propose, 0, 16, settings=QUICK)
    (candidate, *_) = evolutionary.propose(SPACE, state, 4, random.Random(9), QUICK)
    unknown = Candidate("plain", ((1, 1, 1024), (1, 16), 0))
    found = state.predicted([unknown, candidate])
    assert found[0] is None and found[1] > 0 and state.predicted([]) == []


def test_a_search_goes_on_from_recorded_trials():
    whole = run(evolutionary.propose, 5, 32, settings=QUICK)
    resumed = new_state(seed=5)
    for candidate, seconds in list(whole.measured.items())[:16]:
        resumed.add(candidate, seconds)
    run(evolutionary.propose, 5, 32, state=resumed, settings=QUICK)
    assert list(resumed.measured.items()) == list(whole.measured.items())


SCRIPT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("test_search", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
state = module.run(module.evolutionary.propose, 7, 24, state=module.new_state("xgboost", 7),
                   settings=module.QUICK)
print([(c.key, s) for c, s in state.measured.items()])
print(module.gpu_plans())
"""


@pytest.fixture(scope="module")
def in_another():
    """What a process prints that hashes texts in another way: trials, and plans for a GPU."""
    other = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    env = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_same_search_in_every_process(in_another):
    state = run(evolutionary.propose, 7, 24, state=new_state("xgboost", 7), settings=QUICK)
    here = [(c.key, s) for c, s in state.measured.items()]
    assert in_another[0] == str(here) and "tiled" in str(here)


def gpu_plans():
    x = te.placeholder((64, 58, 58), name="x")
    shape = (64, 3, 3, 56, 56)
    columns = te.compute(shape, lambda c, r, s, i, j: x[c, i + r, j + s], name="columns")
    func = te.create_prim_func([x, columns], name="columns")
    plans = choose(func, Gpu(Target.parse("cuda -arch=sm_90a")), None).sketch.plans
    return str([(plan.name, plan.default(), plan.choices) for plan in plans])


def test_gpu_plans_are_the_same_in_every_process(in_another):
    """Of two axes side by side in what is read, each is as near to the next element."""
    assert in_another[1] == gpu_plans() and "columns" in in_another[1]


def test_errors():
    def never(values):
        raise Infeasible("no registers left")

    hopeless = Space([Sketch("s", TILES, built("plain"), never)])

    def refuse(values):
        raise Refusal("split('i'): no such loop")

    broken = Space([Sketch("s", TILES, refuse)])
    for propose in STRATEGIES.values():
        with pytest.raises(TensorIRError, match=r"'s' has nothing feasible .*x no registers left"):
            propose(hopeless, new_state(), 4, random.Random(0))
        with pytest.raises(TensorIRError, match=r"every schedule is refused \(\d+ x split\('i'\)"):
            propose(broken, new_state(), 4, random.Random(0))
    with pytest.raises(TensorIRError, match="unknown strategy 'tabu'; known are policy, evol"):
        search_named("tabu")


def test_sketches_without_anything_feasible_are_skipped():
    def never(values):
        return False

    space = Space([Sketch("a", TILES, built("plain"), never), Sketch("b", TILES, built("plain"))])
    batch = evolutionary.propose(space, new_state(), 6, random.Random(0), QUICK)
    assert len(batch) == 6 and {c.sketch for c in batch} == {"b"}
