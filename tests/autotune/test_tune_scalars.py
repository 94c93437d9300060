"""Tuning programs that take numbers: `sizes` gives them values, as it does symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Database, default_schedule, tune
from autotune.database.records import Workload
from autotune.measure import Reference
from autotune.measure.oracle import make_oracle
from backends import build
from tensorir import TensorIRError, parse, reference, te
from tests.brief import BRIEF

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
        parts(), "c -threads=1", trials=2, database=path, settings=BRIEF, sizes=SIZES,
        progress=False,
    )  # fmt: skip
    check(result.schedule)
    with Database(path) as database:
        records = list(database.records())
    assert {r.status for r in records} == {"ok"}
    assert all(r.conditions.sizes == SIZES for r in records)
    assert all("factor: i64 >= 1" in r.workload.text for r in records)
    again = tune(
        parts(), "c -threads=1", trials=2, database=path, settings=BRIEF, sizes=SIZES,
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


def blend():
    """A value of each kind of type: a float, a flag and a small integer."""
    n = te.var("n")
    alpha, flag, times = te.var("alpha", "float32"), te.var("flag", "bool"), te.var("times", "int8")
    a = te.placeholder((n, 16), name="A")
    b = te.compute((n, 16), lambda i, j: a[i, j] * alpha + te.cast(times, "float32"), name="B")
    c = te.compute((n, 16), lambda i, j: te.if_then_else(flag, b[i, j], a[i, j]), name="C")
    return te.create_prim_func([alpha, a, flag, c, times], name="blend")


def check_blend(kernel):
    a = np.arange(48, dtype="float32").reshape(3, 16)
    for alpha, flag, times in ((0.5, True, 3), (-2.0, True, -7), (1.0, False, 0)):
        wanted = a * np.float32(alpha) + times if flag else a
        np.testing.assert_array_equal(kernel(alpha, a, flag, times), wanted)


def test_values_are_drawn_to_measure_with_and_are_no_part_of_the_key(pretended, tmp_path):
    """What a schedule of a program with values is and takes, no value changes."""
    path, how = tmp_path / "tuning.db", dict(settings=BRIEF, progress=False)
    first = tune(blend(), "c -threads=1", trials=2, database=path, sizes={"n": 40}, **how)
    check_blend(first.build())
    check_blend(build(default_schedule(blend())))
    for given in ({}, {"alpha": 0.25, "flag": False}, {"times": np.int8(-3), "alpha": 2}):
        again = tune(
            blend(), "c -threads=1", trials=2, database=path, sizes={"n": 40, **given}, **how
        )
        assert again.from_database and again.record.id == first.record.id
    with Database(path) as database:
        records = list(database.records())
        stored = [type(r).from_json(r.to_json()) for r in records]
    assert {r.status for r in records} == {"ok"} and [r.id for r in stored] == [
        r.id for r in records
    ]
    assert all(r.conditions.sizes == {"n": 40} for r in records)
    assert all("alpha: f32" in r.workload.text and "flag: bool" in r.workload.text for r in records)
    other = str(blend()).replace("alpha: f32", "alpha: f64").replace("* alpha", "* f32(alpha)")
    assert Workload.of(parse(other)).key != records[0].workload.key


def test_values_that_are_given_are_measured_with(tmp_path):
    truth = make_oracle(blend(), 3, {"n": 5, "flag": True, "alpha": 0.1})
    drawn = make_oracle(blend(), 3, {"n": 5})
    assert truth.numbers["alpha"] == 0.1 and truth.numbers["flag"] is True
    assert isinstance(drawn.numbers["flag"], bool) and abs(drawn.numbers["alpha"]) <= 1
    assert truth.numbers["times"] == drawn.numbers["times"]
    assert make_oracle(blend(), 3, {"n": 5}).numbers == drawn.numbers, "by the seed"
    assert make_oracle(blend(), 4, {"n": 5}).numbers != drawn.numbers
    np.testing.assert_array_equal(truth.inputs["A"], drawn.inputs["A"])
    for each in (truth, drawn):
        each.save(tmp_path / "truth.npz")
        back = Reference.load(tmp_path / "truth.npz").numbers
        assert back == each.numbers
        assert [type(back[k]) for k in each.numbers] == [type(v) for v in each.numbers.values()]
    kernel = build(blend())
    given = [truth.inputs["A"]]
    assert truth.error("C", kernel(*given, **truth.numbers))[2] is None


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"n": 4, "alpha": "1"}, r"sizes\['alpha'\] is '1' of type str, no real number"),
        ({"n": 4, "times": 300}, r"sizes\['times'\] is 300, and int8 holds -128 to 127"),
        ({"n": 4, "flag": 1}, r"sizes\['flag'\] is 1 of type int, no truth value"),
        ({"n": 4, "beta": 1.0}, "'beta', which is no symbolic size; those of 'blend' are n, alpha"),
        ({"alpha": 1.0}, "'blend' has the symbolic size 'n'"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path, sizes, words):
    with pytest.raises(TensorIRError, match=words):
        tune(blend(), "c", trials=1, database=tmp_path / "x.db", sizes=sizes, progress=False)
