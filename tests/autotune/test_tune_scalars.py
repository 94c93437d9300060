"""Tuning programs that take numbers: `sizes` gives them values, as it does symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Database, MeasureSettings, default_schedule, tune
from autotune.measure import Reference
from autotune.measure.oracle import make_oracle
from backends import build
from tensorir import TensorIRError, reference, te

FAST = MeasureSettings(min_ms=0.2, repeats=2, prune_factor=1e6, build_jobs=1)
SIZES = {"n": 40, "factor": 5, "scale": -2}


def parts():
    n, factor, scale = te.var("n"), te.var("factor"), te.var("scale")
    a = te.placeholder((n, 16), name="A")
    k = te.reduce_axis(factor, name="k")
    s = te.compute((n // factor, 16), lambda i, j: te.sum(a[i * factor + k, j], axis=k), name="S")
    c = te.compute((n // factor, 16), lambda i, j: s[i, j] * scale, name="C")
    return te.create_prim_func([factor, a, scale, c], name="parts")


def check(sch):
    kernel, func = build(sch), parts()
    rng = np.random.default_rng(0)
    for rows, factor, scale in ((40, 5, -2), (7, 3, 1), (7, 8, 1), (0, 1, 4)):
        a = rng.integers(-4, 5, (rows, 16)).astype("float32")
        wanted = reference(func, factor, a, scale)[0]
        np.testing.assert_array_equal(kernel(factor, a, scale), wanted)


def test_tuned_with_numbers_in_sizes(tmp_path):
    path = tmp_path / "tuning.db"
    result = tune(
        parts(), "c -threads=1", trials=2, database=path, settings=FAST, sizes=SIZES,
        progress=False,
    )  # fmt: skip
    check(result.schedule)
    with Database(path) as database:
        records = list(database.records())
    assert {r.status for r in records} == {"ok"}
    assert all(r.conditions.sizes == SIZES for r in records)
    assert all("factor: i64 >= 1" in r.workload.text for r in records)
    again = tune(
        parts(), "c -threads=1", trials=2, database=path, settings=FAST, sizes=SIZES,
        progress=False,
    )  # fmt: skip
    assert again.from_database
    check(again.schedule)


def test_default_schedules_take_any_number():
    check(default_schedule(parts()))


def test_a_number_that_is_missing_or_cannot_be_is_named(tmp_path):
    for sizes, words in (
        ({"n": 40, "factor": 5}, "'scale'"),
        ({**SIZES, "factor": 0}, "'factor'"),
        ({**SIZES, "other": 0}, "'other', which is no symbolic size"),
        ({**SIZES, "factor": 2.5}, "factor"),
    ):
        with pytest.raises(TensorIRError, match=words):
            tune(parts(), "c", trials=1, database=tmp_path / "x.db", sizes=sizes, progress=False)


def test_a_reference_keeps_its_numbers(tmp_path):
    truth = make_oracle(parts(), 0, SIZES)
    assert truth.names == ("A", "C")
    assert truth.numbers == {"factor": 5, "scale": -2}
    truth.save(tmp_path / "truth.npz")
    assert Reference.load(tmp_path / "truth.npz").numbers == truth.numbers
