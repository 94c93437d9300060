"""Tuning with constants: what is timed and checked, and how records of it are kept apart."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from autotune import Database, tune
from autotune.cli import main
from autotune.database.jsonl import decode, encode
from autotune.database.records import Record, Workload
from autotune.examples import make_example
from autotune.features.features import extractor
from autotune.machine.machine import this_machine
from autotune.measure import Measurer
from autotune.measure.job import source_hash
from autotune.rules import default_candidate, make_space
from backends import build, resolve
from schedule import Schedule
from tensorir import Target, TensorIRError, Var, device_of, parse, te
from tests.brief import BRIEF

ONE = "c -threads=1"


def linear(m=16, n=24, k=8, name="linear", weights="W"):
    a, w = te.placeholder((m, k), name="A"), te.placeholder((k, n), name=weights)
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * w[r, j], axis=r), name="C")
    return te.create_prim_func([a, w, c], name=name)


def packed(func):
    sch = Schedule(func)
    copy = sch.cache_read("C", "W", "global")
    sch.transform_layout(copy, "W_global", lambda k, j: (j // 4, k, j % 4))
    return sch


def arrays(m=16, n=24, k=8):
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype("float32") for shape in ((m, k), (k, n))]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuning") / "tuning.db"
    result = tune(
        linear(),
        ONE,
        trials=2,
        database=path,
        settings=BRIEF,
        strategy="random",
        constants=("W",),
        progress=False,
    )
    return path, result


def test_the_result_is_built_with_arrays(tuned):
    _, result = tuned
    a, w = arrays()
    assert result.constants == ("W",)
    assert result.record.verdict.checked and result.record.is_final
    np.testing.assert_array_equal(result.build(constants={"W": w})(a), a @ w)
    with pytest.raises(TensorIRError, match=r"tuned with constants=\{'W': array\}, not with those"):
        result.build()
    with pytest.raises(TensorIRError, match=r"not with those of \['A', 'W'\]"):
        result.build(constants={"W": w, "A": a})


def test_records_compete_only_with_those_of_the_same_constants(tuned, tmp_path, pretended):
    path, first = tuned
    again = tune(linear(), ONE, trials=2, database=path, constants=["W"], progress=False)
    assert again.from_database and again.record == first.record
    copy = tmp_path / "copy.db"
    with Database(path) as source, Database(copy) as db:
        db.add_many(source.records())
        other = Workload.of(linear(), ("A",))
        assert db.best(other, first.target, this_machine()) is None
        text = db.explain_miss(other, first.target, this_machine())
        assert "records of this program are for other constants: 'W'; not 'A'" in text
    plain = tune(
        linear(), ONE, trials=2, database=copy, settings=BRIEF, strategy="random", progress=False
    )
    assert plain.measured == 2 and plain.constants == ()
    with pytest.raises(TensorIRError, match="tuned with no constants.*call build"):
        plain.build(constants={"W": arrays()[1]})


def test_the_key_counts_positions_not_names():
    plain = Workload.of(linear())
    keys = {plain.key, Workload.of(linear(), ("W",)).key, Workload.of(linear(), ("A",)).key}
    both = Workload.of(linear(), ("W", "A"))
    assert len(keys | {both.key}) == 4
    assert both == Workload.of(linear(), ("A", "W"))
    assert Workload.of(linear(weights="V"), ("V",)).key == Workload.of(linear(), ("W",)).key
    assert both.structure == plain.structure
    with pytest.raises(TensorIRError, match="constant 'V' is not a parameter"):
        Workload.of(linear(), ("V",))


def test_records_with_constants_survive_the_way_through_json(tuned):
    record = tuned[1].record
    assert decode(encode(record)) == record
    assert json.loads(encode(record))["workload"]["constants"] == ["W"]


def test_records_from_before_constants_stay_as_they_are():
    record = Record(Workload.of(linear()), "c", "m", "crash", time="2026-01-01T00:00:00.000Z")
    text = encode(record)
    assert "constants" not in json.loads(text)["workload"]
    assert decode(text).id == record.id
    assert decode(text).workload.constants == ()


def test_what_runs_ahead_is_checked():
    func = linear()
    good = packed(func)
    bad = str(good.func).replace("= W[vax0,", "= W[7 - vax0,")
    assert bad != str(good.func)
    with Measurer(func, resolve(ONE), BRIEF, constants=("W",)) as measurer:
        right, wrong = measurer.measure([good, bad])
        assert measurer.race([good], rounds=1, min_ms=0.1).times
    assert right.ok and right.verdict.checked
    assert right.source_hash == source_hash(build(good, resolve(ONE), constants=("W",)))
    assert wrong.status == "wrong_result"


def test_what_runs_ahead_is_not_timed():
    """The kernel that is timed is the one that a call runs: it takes the packed weights."""
    func = linear()
    two = replace(BRIEF, build_jobs=2)
    with Measurer(func, str(resolve(ONE)), two, constants=("W",)) as measurer:
        result = measurer.measure([packed(func), func])[0]
        assert measurer.race([packed(func)], rounds=1, min_ms=0.1).times
    assert result.ok
    assert result.source_hash == source_hash(build(packed(func), resolve(ONE), constants=("W",)))


def test_features_are_of_what_is_timed():
    machine = Target(vector_bits=256, threads=2)
    row = extractor(machine)(packed(linear()))
    ahead = extractor(machine, ("W",))(packed(linear()))
    plain = extractor(machine, ("W",))(Schedule(linear()))
    assert not np.array_equal(row, ahead)
    assert np.array_equal(extractor(machine)(Schedule(linear())), plain)


def test_a_size_of_the_other_arguments_may_be_symbolic():
    func = linear(m=Var("m"), n=24)
    with Measurer(func, str(resolve(ONE)), BRIEF, sizes={"m": 7}, constants=("W",)) as measurer:
        assert measurer.measure([packed(func)])[0].ok


def test_symbolic_weights_are_measured_with_their_sizes():
    func = parse(
        """\
@prim_func
def f(A: f32[n], W: f32[n], C: f32[n]):
    P = alloc(f32[n])
    for i in range(n):
        with block("P"):
            vi = spatial(n, i)
            P[vi] = W[n - 1 - vi]
    for j in range(n):
        with block("C"):
            vj = spatial(n, j)
            C[vj] = A[vj] * P[vj]
"""
    )
    settings = replace(BRIEF, build_jobs=2)
    target = str(resolve(ONE))
    with Measurer(func, target, settings, sizes={"n": 5}, constants=("W",)) as measurer:
        results = measurer.measure([func, Schedule(func)])
    assert [r.status for r in results] == ["ok", "ok"]


def test_the_default_packs_constants_ahead_of_all_calls():
    func = linear(128, 128, 128)
    space = make_space(func, device_of(resolve("c -vector_bits=256")))
    plain, known = default_candidate(space), default_candidate(space, ("W",))
    assert plain != known
    assert build(space.build(plain), constants=("W",)).prepare is None
    assert build(space.build(known), constants=("W",)).prepare is not None


def test_the_command_line_names_constants(pretended, tmp_path, capsys):
    database = str(tmp_path / "t.db")
    words = ["matmul", "--shape", "m=16", "n=16", "k=16", "--constants", "B"]
    words += ["--database", database, "--target=c -threads=1"]
    assert main(["tune", *words, "--trials", "1", "--strategy", "random", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "B: const float32[16, 16]" in out
    assert "--constants B" in out, "the suggested command has them too"
    assert main(["best", *words, "--export", str(tmp_path / "out")]) == 0
    assert "int matmul(" in (tmp_path / "out" / "matmul.c").read_text()
    assert main(["best", *words, "--show", "source"]) == 0
    assert main(["best", *words[:5], "--target=c -threads=1", "--database", database]) == 1
    assert "for other constants: 'B'" in capsys.readouterr().err
    assert main(["report", "matmul", "--database", database]) == 0
    assert "matmul 16x16 [16x16] 16x16" in capsys.readouterr().out
    assert main(["tune", *words[:5], "--constants", "C", "--database", database]) == 2
    assert "'C' is written, so it cannot be a constant" in capsys.readouterr().err
    assert make_example("matmul", {"m": 16, "n": 16, "k": 16}).params[1].name == "B"
