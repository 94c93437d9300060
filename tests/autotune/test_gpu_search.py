"""Searches for GPUs: candidates are told apart by what their kernels are estimated to take."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autotune import Database, default_schedule, tune
from autotune.database.conditions import Conditions
from autotune.gpu.count import works_of
from autotune.gpu.features import FEATURES, draft
from autotune.gpu.work import Work, architecture_of, cycles
from autotune.measure.scoring import wanted_features
from autotune.rules import make_space
from autotune.space import Infeasible
from backends import build
from benchmarks.tuner.workloads import matmul, softmax
from schedule import Refusal
from tensorir import Target, TensorIRError, device_of
from tests.brief import BRIEF

TARGET = Target.parse("cuda -arch=sm_90")
GPU = device_of(TARGET)


@pytest.mark.parametrize("func", [matmul(64), softmax(8, 100)], ids=lambda f: f.name)
def test_features_are_the_estimate_and_its_parts(func):
    """Of all sketches; the draft gives the estimate back."""
    space, extract = make_space(func, GPU), wanted_features(TARGET, (), "mixed")
    rng = random.Random(0)
    known = 0
    for name in space.sketches:
        try:
            made = space.build(space.sample(rng, name))
            row = extract(made)
        except (Infeasible, Refusal):
            continue
        known += 1
        assert row.shape == (len(FEATURES),) and np.isfinite(row).all()
        seconds = cycles(works_of(made.func, GPU), GPU) / (architecture_of(GPU).card.clock * 1e9)
        assert draft(row[None]) == pytest.approx([seconds], rel=1e-4)
    assert known > 1


@pytest.mark.parametrize(
    ("works", "why"),
    [
        (lambda func, gpu: [Work(1.0, 1 << 20)], "launched: a block asks for more than there is"),
        (lambda func, gpu: _refuse(), "made: too much"),
    ],
)
def test_what_cannot_run_is_refused(works, why, monkeypatch):
    """A candidate, not the search."""
    made = make_space(matmul(64), GPU).sketches["untouched"].build({})
    monkeypatch.setattr("autotune.gpu.features.works_of", works)
    with pytest.raises(Refusal, match=f"its kernels cannot be {why}"):
        wanted_features(TARGET, (), "mixed")(made)


def _refuse():
    raise TensorIRError("too much")


def test_a_search_for_a_gpu_finds_its_own_trials(cache):
    """On the emulator, whose compiler tells of no flags: they are known all the same."""
    here = Conditions.here("cuda-emulator")
    assert here.compiler is None or here.flags == ""
    with Database(":memory:") as db:
        found = tune(
            matmul(16), "cuda-emulator", trials=2, database=db, settings=BRIEF, progress=False
        )
        assert found.trials == 2 and "estimate for the default" in str(found.expectation)
        again = tune(
            matmul(16), "cuda-emulator", trials=2, database=db, settings=BRIEF, progress=False
        )
        assert (again.measured, again.record) == (0, found.record)


@pytest.mark.parametrize("builders", [1, 2])
def test_candidates_are_launched_as_their_schedules_say(builders, cache):
    """With their own blocks, threads and shared memory, and not with those of the definition."""
    func = matmul(96)
    own = build(default_schedule(func, "cuda-emulator"), "cuda-emulator").source
    assert "TI_ARENA" in own  # shared memory, which the definition has none of
    with Database(":memory:") as db:
        settings = replace(BRIEF, build_jobs=builders)  # two build in workers that run nothing
        tune(func, "cuda-emulator", trials=3, database=db, settings=settings, progress=False)
        assert {record.status for record in db.records()} == {"ok"}
