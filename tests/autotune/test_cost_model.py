"""Cost models: the draft orders schedules sensibly, the learned part corrects it."""

from __future__ import annotations

import builtins
import subprocess
import sys
import time

import numpy as np
import pytest

from autotune.cost_model import (
    KINDS,
    ResidualModel,
    draft,
    known_models,
    load_cost_model,
    make_cost_model,
    quality,
    register_cost_model,
)
from autotune.cost_model import make as make_module
from autotune.cost_model.forest import ForestRegressor
from autotune.cost_model.quality import pairwise_accuracy, spearman, top_score
from autotune.features.features import extract
from autotune.features.table import FEATURES
from schedule import Schedule
from tensorir import Target, TensorIRError, te

MACHINE = Target(vector_bits=256, threads=2)
LEARNED = ("gaussian", "xgboost", "sklearn")


def matmul(n=256):
    a = te.placeholder((n, n), "float32", name="A")
    b = te.placeholder((n, n), "float32", name="B")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def tiled(rows, columns, vectorize=True, parallel=True, unroll=True):
    sch = Schedule(matmul())
    i, j, k = sch.get_loops("C")
    i0, i1, j0, j1 = sch.tile(i, j, rows, columns)
    sch.reorder(i0, j0, k, i1, j1)
    if vectorize:
        sch.vectorize(j1)
    if unroll:
        sch.unroll(i1)
    if parallel:
        sch.parallel(i0)
    return sch.func


def seconds_of(func):
    return float(draft(extract(func, MACHINE))[0])


def test_draft_orders_matmuls():
    good = seconds_of(tiled(4, 16))
    flop_time = 2 * 256**3 / (2 * 3e9 * 4 * 8)
    assert flop_time < good < 3 * flop_time
    assert good < seconds_of(tiled(4, 16, parallel=False)) / 1.8
    assert good < seconds_of(tiled(4, 16, vectorize=False)) / 4
    assert good < seconds_of(tiled(4, 16, unroll=False)) / 1.5
    assert good < seconds_of(tiled(1, 8)) / 3
    assert good < seconds_of(tiled(16, 64)) / 1.5
    assert good < seconds_of(matmul()) / 20


def test_draft_refuses_rows_of_another_version():
    with pytest.raises(TensorIRError, match=f"have 3 features, not {len(FEATURES)}"):
        draft(np.zeros((2, 3)))


def world(count, seed=0):
    """Rows and times where a wrong draft is off by a learnable factor, in part by a condition."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0, 8, size=(count, 12)).astype(np.float32)
    wrong = 0.3 * rows[:, 0] + 0.3 * rows[:, 1] * (rows[:, 2] > 4)
    return rows, guess(rows) * np.exp(wrong)


def guess(rows):
    return 1e-3 * np.exp(0.3 * np.asarray(rows, dtype=np.float64)[:, 3])


@pytest.mark.parametrize("kind", LEARNED)
def test_learning_improves_on_the_draft(kind):
    rows, times = world(120)
    fresh_rows, fresh_times = world(200, seed=1)
    model = make_cost_model(kind, draft=guess)
    model.fit(rows, list(times))
    learned = quality(model.predict(fresh_rows), fresh_times)
    drafted = quality(guess(fresh_rows), fresh_times)
    assert drafted.spearman < 0.7
    assert learned.spearman > 0.85 and learned.pairwise > 0.83
    ratio = model.predict(fresh_rows) / fresh_times
    assert 0.5 < np.median(ratio) < 2


@pytest.mark.parametrize("kind", LEARNED)
def test_equal_seeds_predict_equally(kind):
    rows, times = world(60)
    predictions = []
    for seed in (3, 3, 4):
        model = make_cost_model(kind, seed=seed, draft=guess)
        model.fit(rows, list(times))
        predictions.append(model.predict(rows))
    assert np.array_equal(predictions[0], predictions[1])
    assert np.array_equal(predictions[0], predictions[2]) == (kind == "gaussian")  # draws nothing


def test_a_row_is_predicted_alike_whatever_is_beside_it():
    """To the last bit: a search that goes on asks of fewer at once, and has to propose the same."""
    rows, times = world(40)
    model = make_cost_model("gaussian", draft=guess)
    model.fit(rows, list(times))
    together = model.predict(rows)
    for count in (1, 2, 7, 16):
        parts = [model.predict(rows[at : at + count]) for at in range(0, len(rows), count)]
        assert np.array_equal(np.concatenate(parts), together)


def test_columns_that_say_nothing_and_rows_far_away_are_harmless():
    rows, times = world(40)
    still = np.repeat(rows[:1], 40, axis=0)
    for known in (still, np.hstack([rows, np.full((40, 3), 7, np.float32)])):
        model = make_cost_model("gaussian", draft=lambda each: np.ones(len(each)))
        model.fit(known, list(times))
        for other in (known, 0 * known, known + 1e6):
            found = model.predict(other)
            assert np.isfinite(found).all() and (found > 0).all()
            assert found.max() < 100 * times.max() and found.min() > times.min() / 100


@pytest.mark.parametrize("kind", LEARNED)
def test_few_samples_only_scale_the_draft(kind):
    rows, times = world(7)
    model = make_cost_model(kind, draft=guess)
    assert np.allclose(model.predict(rows), guess(rows))
    model.fit(rows, list(times))
    ratio = model.predict(rows) / guess(rows)
    assert np.allclose(ratio, ratio[0]) and ratio[0] > 1


@pytest.mark.parametrize("kind", LEARNED)
def test_failures_are_left_out(kind):
    rows, times = world(40)
    clean = make_cost_model(kind, draft=guess)
    clean.fit(rows, list(times))
    junk = np.full((3, 12), 99, dtype=np.float32)
    mixed = make_cost_model(kind, draft=guess)
    mixed.fit(np.vstack([junk, rows]), [None, float("inf"), float("nan"), *times])
    assert mixed.samples == 40
    assert np.array_equal(clean.predict(rows), mixed.predict(rows))
    failed = make_cost_model(kind, draft=guess)
    failed.fit(junk, [None] * 3)
    assert np.allclose(failed.predict(rows), guess(rows))
    failed.fit(np.zeros((0, 12)), [])
    assert failed.predict(np.zeros((0, 12))).shape == (0,)


@pytest.mark.parametrize("kind", LEARNED)
def test_saved_models_predict_the_same(kind, tmp_path):
    rows, times = world(50)
    model = make_cost_model(kind, seed=5, draft=guess)
    model.fit(rows, list(times))
    model.save(tmp_path / "model.npz")
    again = load_cost_model(tmp_path / "model.npz", draft=guess)
    assert again.kind == kind
    assert np.array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize("kind", LEARNED)
def test_fitting_is_fast(kind):
    rows = np.random.default_rng(0).random((200, len(FEATURES)), dtype=np.float32)
    model = make_cost_model(kind, draft=lambda r: np.ones(len(r)))
    model.fit(rows, [1.0] * 200)
    start = time.process_time()  # whatever else the machine does
    model.fit(rows, list(1 + rows[:, 0]))
    model.predict(rows)
    assert time.process_time() - start < 2, "the target is 0.3 s; the rest is slack"


def test_a_random_model_is_a_function_of_the_row():
    rows, _ = world(50)
    model = make_cost_model("random", seed=1)
    scores = model.predict(rows)
    assert np.array_equal(model.predict(rows[::-1]), scores[::-1])
    assert len(set(scores)) == 50 and 0 < scores.min() and scores.max() <= 1
    assert not np.array_equal(make_cost_model("random", seed=2).predict(rows), scores)


def test_auto_needs_no_package_and_others_name_theirs(monkeypatch):
    monkeypatch.setattr(make_module, "find_spec", lambda name: name == "numpy" or None)
    assert make_cost_model("auto").kind == "gaussian"
    for kind, package in (("xgboost", "xgboost"), ("sklearn", "scikit-learn")):
        with pytest.raises(TensorIRError, match=f"pip install {package}"):
            make_cost_model(kind)


def test_learning_imports_nothing():
    """Libraries of learners take longer to import than a search has to learn."""
    program = (
        "import sys, numpy\n"
        "from autotune.cost_model import make_cost_model\n"
        "known = set(sys.modules)\n"
        "model = make_cost_model('auto', draft=lambda rows: numpy.ones(len(rows)))\n"
        "model.fit(numpy.eye(20), list(numpy.arange(1.0, 21.0)))\n"
        "model.predict(numpy.eye(20))\n"
        "found = {name.partition('.')[0] for name in set(sys.modules) - known}\n"
        "print(sorted(found - {'numpy', 'autotune'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_heavy_packages_are_imported_late(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        assert not name.startswith(("xgboost", "sklearn")), name
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for kind in KINDS:
        make_cost_model(kind)


def test_errors(tmp_path):
    with pytest.raises(TensorIRError, match="unknown cost model 'mlp'; known are auto, gaussian"):
        make_cost_model("mlp")
    with pytest.raises(TensorIRError, match="5 rows and 4 times do not match"):
        make_cost_model("sklearn", draft=guess).fit(world(5)[0], [1.0] * 4)
    (tmp_path / "junk").write_bytes(b"not a model")
    with pytest.raises(TensorIRError, match="is not a cost model"):
        load_cost_model(tmp_path / "junk")


def test_a_model_of_other_features_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    make_cost_model("sklearn").save(path)
    monkeypatch.setattr(make_module, "FEATURE_SCHEMA", 99)
    with pytest.raises(TensorIRError, match=r"features of version \d, this is version 99"):
        load_cost_model(path)


def test_quality_measures():
    measured = np.array([1.0, 2.0, 3.0, 4.0])
    perfect = quality(measured * 7, measured)
    assert (perfect.spearman, perfect.pairwise) == pytest.approx((1, 1))
    assert (perfect.top1, perfect.top5) == (1, 1)
    reverse = quality(-measured, measured)
    assert (reverse.spearman, reverse.pairwise) == pytest.approx((-1, 0))
    assert reverse.top1 == 0.25
    assert "4 samples: rank correlation 1.00" in str(perfect)


def test_quality_with_ties_and_failures():
    scipy_stats = pytest.importorskip("scipy.stats")
    a = np.array([1.0, 1.0, 2.0, 5.0, 5.0, 3.0])
    b = np.array([2.0, 1.0, 2.0, 9.0, 7.0, 7.0])
    assert spearman(a, b) == pytest.approx(scipy_stats.spearmanr(a, b).statistic)
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))
    # 1.00 and 1.01 differ by less than the noise: one pair of three is left out.
    assert pairwise_accuracy(np.array([2.0, 1.0, 3.0]), np.array([1.0, 1.01, 2.0])) == 1
    assert quality(np.array([1.0, 2.0]), np.array([np.nan, 2.0])).samples == 1
    assert top_score(np.array([3.0, 1.0, 2.0]), np.array([1.0, 4.0, 2.0]), 2) == 0.5


class Mean:
    """A model of a user: all take what trials took at the median, so long as nothing is broken."""

    notice = None
    seen: list[float] = []

    def __init__(self, seed=0):
        self.middle = 1.0

    def fit(self, features, seconds):
        good = [s for s in seconds if s is not None and np.isfinite(s)]
        self.middle = float(np.median(good)) if good else 1.0

    def predict(self, features, learned=1.0):
        return np.full(len(features), self.middle)


class Wide(Mean):
    def predict(self, features, learned=1.0):
        return np.full((len(features), 1), self.middle)


class Logarithm(Mean):
    def predict(self, features, learned=1.0):
        return np.log(super().predict(features) / 2)


class Failing(Mean):
    def fit(self, features, seconds):
        self.middle = float(np.mean([s for s in seconds]))  # None is a failure


class Unseeded(Mean):
    def predict(self, features, learned=1.0):
        return np.random.default_rng().uniform(1, 2) * np.ones(len(features))


class Remembering(Mean):
    def fit(self, features, seconds):
        Remembering.seen.extend(s for s in seconds if s is not None and np.isfinite(s))
        self.middle = float(np.sum(Remembering.seen) or 1.0)


class Ranked(Mean):
    def predict(self, features, learned=1.0):
        return np.argsort(np.argsort(np.asarray(features)[:, 0])) + 1.0


def test_a_model_of_a_user(monkeypatch):
    """It is known wherever models have names; what would mislead a search is refused."""
    monkeypatch.setattr(make_module, "MODELS", {})
    monkeypatch.setattr(Remembering, "seen", [])
    register_cost_model("middle", Mean)
    assert known_models() == (*KINDS, "middle")
    model = make_cost_model("middle", 3)
    model.fit(world(3)[0], [1.0, None, 3.0])
    assert model.predict(world(2)[0]).tolist() == [2.0, 2.0]
    register_cost_model("trees", lambda seed: ResidualModel("trees", ForestRegressor))
    for name, make, message in (
        ("middle", Mean, "'middle' already: choose another name"),
        ("auto", Mean, "'auto' already: choose another name"),
        ("no name", Mean, "an identifier, such as 'ridge', not 'no name'"),
        ("model", 3, "'model' is 3, not a function from a seed"),
        ("model", lambda seed: 3, "has no notice and no fit and no predict"),
        ("model", lambda: Mean(), "failed on made-up trials: TypeError"),
        ("model", Wide, r"shape \(29, 1\) for 29 rows, before the first fit"),
        ("model", Logarithm, "not finite or not positive"),
        ("model", Failing, "failed on made-up trials: TypeError"),
        ("model", Unseeded, "for a row when others are beside it"),
        ("model", Ranked, "for a row when others are beside it"),
        ("model", Remembering, "learn from scratch in every fit"),
    ):
        with pytest.raises(TensorIRError, match=message):
            register_cost_model(name, make)
    assert known_models() == (*KINDS, "middle", "trees")
    with pytest.raises(TensorIRError, match="known are auto.*trees; register_cost_model adds one"):
        make_cost_model("model")
