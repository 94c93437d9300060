"""Schedules that users write with knobs: their spaces, searches, records and errors."""

from __future__ import annotations

import importlib
import json
import random
import sys
import textwrap

import numpy as np
import pytest

from autotune import Database, Record, default_schedule, own_space, tune
from autotune.cli.entry import main
from autotune.examples import EXAMPLES, no_size
from autotune.knobs.identity import identity_of
from autotune.knobs.knobs import Knobs
from tensorir import TensorIRError, te
from tests.brief import BRIEF

pytestmark = pytest.mark.usefixtures("all_pretended")

TILE = 4


def matmul(m=16, n=24, k=8):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def tiled(sch, knobs):
    i, j, k = sch.get_loops("C")
    jo, ji = sch.split(j, knobs.tile("j", 24))
    if knobs.flag("rows"):
        io, ii = sch.split(i, knobs.tile("i", 16))
        sch.reorder([io, jo, k, ii, ji])
    else:
        sch.reorder([i, jo, k, ji])
    if knobs.choice("inner", ["vector", "serial"]) == "vector":
        sch.vectorize(ji)


def test_branches_are_sketches_and_all_of_their_candidates_build():
    space = own_space(matmul(), tiled)
    names = [tuple(c.name for c in sketch.choices) for sketch in space.sketches.values()]
    assert names == [("j", "rows", "inner"), ("j", "rows", "i", "inner")]
    assert space.size() == 8 * 2 + 8 * 2 * 5
    rng, seen = random.Random(0), set()
    for name in list(space.sketches) * 15:
        candidate = space.sample(rng, name)
        decisions = space.decisions(candidate)
        assert decisions["rows"] is ("i" in decisions)
        seen.add(decisions["inner"])
        for each in (candidate, space.mutate(candidate, rng), *space.neighbors(candidate)[:2]):
            assert space.contains(each)
        assert space.build(candidate).func is not None
    assert seen == {"vector", "serial"}
    assert space.defaults[0].values == ((2, 12), False, "vector")


def test_flags_that_decide_no_other_knob_make_no_sketches():
    def loops(sch, knobs):
        for loop in sch.get_loops("C")[:2]:
            if knobs.flag(f"unroll {loop}"):
                sch.unroll(loop)

    space = own_space(matmul(2, 2, 2), loops)
    assert len(space.sketches) == 1 and space.size() == 4


def test_knobs_of_knobs_and_values_that_differ_by_branch():
    def nested(sch, knobs):
        *_, k = sch.get_loops("C")
        if knobs.flag("a") and knobs.flag("b"):
            sch.split(k, [None, knobs.choice("width", [2, 4])])
        elif not knobs.flag("a"):
            sch.split(k, [None, knobs.choice("width", [1, 3, 5])])

    space = own_space(matmul(), nested)
    found = {frozenset(space.decisions(space.sample(random.Random(n))).items()) for n in range(200)}
    assert found == {
        *(frozenset({("a", True), ("b", True), ("width", w)}) for w in (2, 4)),
        *(frozenset({("a", False), ("width", w)}) for w in (1, 3, 5)),
        frozenset({("a", True), ("b", False)}),
    }


@pytest.mark.parametrize("extent", [1, 7, 96])
def test_tiles_of_any_extent(extent):
    def tiles(sch, knobs):
        i, j, _ = sch.get_loops("C")
        sch.split(i, knobs.tile("i", extent, parts=3, divide=False))
        sch.split(j, [None, knobs.factor("j", extent)])

    func = matmul(extent, extent, 2)
    space = own_space(func, tiles)
    for seed in range(10):
        space.build(space.sample(random.Random(seed)))
    assert space.defaults and space.contains(space.defaults[0])


def test_scalars_of_numpy_are_those_of_python():
    knobs = Knobs({})
    knobs.choice("a", [np.int64(4), np.bool_(True), [np.float64(0.5)]], np.bool_(True))
    knobs.flag("b", np.bool_(True))
    knobs.factor("c", np.int64(64), np.int32(4))
    knobs.tile("d", np.int32(64), default=[np.int64(8), np.int64(8)])
    knobs.tile("e", np.int32(60), divide=False, default=np.array([4, 16]))
    assert json.loads(json.dumps(knobs.used)) == {
        "a": True, "b": True, "c": [16, 4], "d": [8, 8], "e": [16],
    }  # fmt: skip


def test_numbers_that_are_given_are_the_defaults():
    def fixed(sch, knobs):
        i, j, k = sch.get_loops("C")
        sch.split(i, knobs.tile("i", 16, parts=3, default=(2, 8, 1)))
        sch.split(j, knobs.tile("j", 24, divide=False, default=(3, 8)))
        sch.split(k, [None, knobs.factor("k", 8, default=2)])
        knobs.flag("f", default=True)
        knobs.choice("c", [1, "x", None], default="x")

    assert own_space(matmul(), fixed).defaults[0].values == ((2, 8, 1), (8,), (4, 2), True, "x")


@pytest.fixture(scope="module")
def tuned():
    """A database with six trials of `tiled`, and their result."""
    with Database(":memory:") as db:
        yield db, tune(matmul(), trials=6, space=tiled, database=db, settings=BRIEF, progress=False)


def test_a_search_of_ones_own_schedules_is_like_any_other(tuned):
    db, result = tuned
    assert result.measured == result.trials == 6 and result.record.is_final
    a = np.arange(128, dtype="float32").reshape(16, 8)
    b = np.arange(192, dtype="float32").reshape(8, 24) % 7
    np.testing.assert_array_equal(result.build()(a, b), a @ b)
    knobs = result.record.own["knobs"]
    assert result.record.own["function"].startswith("tiled@") and knobs[:2] == ["j", "rows"]
    assert len(knobs) == len(result.record.decisions)
    assert Record.from_json(result.record.to_json()) == result.record
    again = tune(matmul(), trials=6, space=tiled, database=db, settings=BRIEF, progress=False)
    assert again.from_database and again.record == result.record
    first = next(r for r in db.records() if r.trial == 0)
    assert first.decisions == [[2, 12], False, "vector"]


def test_searches_by_rules_and_by_other_functions_are_others(tuned):
    db, own = tuned

    def tiled(sch, knobs):  # of the same name
        sch.split(sch.get_loops("C")[1], knobs.tile("j", 24))

    given = {"database": db, "settings": BRIEF, "progress": False, "shipped": False}
    other = tune(matmul(), trials=2, space=tiled, **given)
    assert (other.measured, other.trials) == (2, 2) and other.record.own != own.record.own
    rules = tune(matmul(), trials=2, **given)
    assert rules.measured == 2 and rules.record.own is None and not rules.record.function
    assert "skipped" not in rules.notice + other.notice
    assert tune(matmul(), trials=6, space=globals()["tiled"], **given).record == own.record


def test_a_record_replays_without_the_function(tuned):
    db, result = tuned
    stored = db.best(result.record.workload, result.target, result.record.machine_key)
    from autotune.tuning.replay import replayed

    assert replayed(matmul(), stored).trace.as_json() == list(stored.trace)
    assert str(default_schedule(matmul()).func) != str(result.schedule.func)


def loaded(text, **names):
    """The function `f` of a file with this text."""
    known = dict(names, __name__="made")
    exec(compile(textwrap.dedent(text), "made.py", "exec"), known)
    return known["f"]


def test_what_a_function_is():
    def made(width):
        def f(sch, knobs):
            sch.split("j", [None, width])

        return f

    def listed(widths):
        return lambda sch, knobs: sch.split("j", widths)

    assert identity_of(made(4)) == identity_of(made(4)) != identity_of(made(8))
    assert identity_of(listed([4, {"a": 1}])) == identity_of(listed([4, {"a": 1}]))
    assert identity_of(listed([4, {"a": 1}])) != identity_of(listed([4, {"a": 2}]))
    with pytest.raises(TensorIRError, match=r"uses 'widths'\[0\], a object: a later run"):
        identity_of(listed([object()]))


def test_helpers_globals_and_code_count_and_comments_do_not(tmp_path):
    import importlib.util

    def identity(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return identity_of(module.f)

    text = """
        WIDTH = 4
        def helper(n):
            return n + 1
        def f(sch, knobs):
            return helper(WIDTH)
    """
    first = identity("a", text)
    worded = text.replace("return", "'Words.'  # more\n            return")
    assert first == identity("b", worded)
    assert first != identity("c", text.replace("WIDTH = 4", "WIDTH = 5"))
    assert first != identity("d", text.replace("n + 1", "n + 2"))
    assert first != identity("e", text.replace("helper(WIDTH)", "helper(WIDTH) + 0"))
    one, other = (loaded(text.replace("n + 1", f"n + {n}")) for n in (1, 2))
    assert identity_of(one) != identity_of(other)  # without a file, by the code


def test_a_file_of_the_same_module_name_is_not_the_text(tmp_path, monkeypatch):
    (tmp_path / "made.py").write_text("def f(sch, knobs):\n    return 0\n" * 9)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made", raising=False)
    importlib.import_module("made")
    one, other = (loaded(f"def f(sch, knobs):\n    return {n}") for n in (1, 2))
    assert identity_of(one) != identity_of(other)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("knobs.tile('i', 0)", "extent of knob 'i' must be at least 1"),
        ("knobs.tile('i', 'n')", "for a symbolic size write the number"),
        ("knobs.tile('i', 8, parts=1)", "parts of knob 'i' must be at least 2"),
        ("knobs.tile('i', 8, default=(3, 3))", r"default of knob 'i' is \(3, 3\), none of its"),
        ("knobs.factor('i', 8, default=3)", "default of knob 'i' is 3, no divisor of 8"),
        ("knobs.choice('i', [])", "options .* are none or not distinct"),
        ("knobs.choice('i', [float('nan')])", "finite numbers, strings, bools"),
        ("knobs.choice('i', [sch])", "what can be stored"),
        ("knobs.flag('')", "a knob's name is a text"),
        ("knobs.flag('i'); knobs.factor('i', 4)", "knob 'i' is asked for twice, with other values"),
        ("1 // 0", "'f' failed with no knobs: ZeroDivisionError"),
        ("1 // (knobs.choice('i', [1, 0]))", "'f' failed with i=0: ZeroDivisionError"),
        ("sch.split('x', [2, knobs.factor('i', 4)])", r"'f' failed with i=\(1, 4\): split.*'x'"),
        ("return 3", "it gives a int"),
        ("[knobs.choice(f'c{n}', [1, 2, 3, 4]) for n in range(5)]", "more than 256 combinations"),
        ("knobs.factor('j', 4 * knobs.factor('i', 64))", "depend on choices and flags alone"),
        ("knobs.factor('i', 64) > 8 and knobs.flag('j')", "'f' asks for other knobs with i="),
    ],
)
def test_what_a_function_must_not_do(body, message):
    function = loaded(f"def f(sch, knobs):\n    {body}\n")
    with pytest.raises(TensorIRError, match=message):
        own_space(matmul(), function)


def test_space_must_be_a_function():
    with pytest.raises(TensorIRError, match="a function that schedules"):
        tune(matmul(), space="tiled", database=None)


def test_branches_that_cannot_be_scheduled_are_left_out_and_told():
    def twice(sch, knobs):
        loop = sch.get_loops("C")[0]
        sch.parallel(loop)
        if knobs.flag("again"):
            sch.vectorize(loop)

    space = own_space(matmul(), twice)
    assert space.size() == 1 and "failed with again=True: vectorize" in space.refusals[0]
    result = tune(matmul(), trials=1, space=twice, database=None, settings=BRIEF, progress=False)
    assert "left out" in result.notice and "again=True" in result.notice


def test_tiles_that_are_refused_are_refusals_with_their_values():
    def narrow(sch, knobs):
        inner = knobs.factor("j", 24)
        if inner > 20:
            sch.split("none", [2])
        sch.split(sch.get_loops("C")[1], [None, inner])

    space = own_space(matmul(), narrow)
    (name,) = space.sketches
    from autotune.space import Candidate

    with pytest.raises(TensorIRError, match=r"failed with j=\(1, 24\)") as caught:
        space.build(Candidate(name, ((1, 24),)))
    assert "j=" not in caught.value.headline


FILE = """
from tensorir import te

def double():
    a = te.placeholder((64,), name="A")
    return [a, te.compute((64,), lambda i: a[i] * 2.0, name="B")]

def tiled(sch, knobs):
    sch.split(sch.get_loops("B")[0], [None, knobs.factor("i", 64)])
"""


def test_the_command_line_takes_a_schedule_function(tmp_path, capsys):
    file, path = tmp_path / "kernels.py", tmp_path / "t.db"
    file.write_text(FILE)
    words = ["tune", f"{file}:double", "--database", str(path), "--quiet"]
    assert main([*words, "--knobs", "tiled", "--trials", "1"]) == 0
    assert "--more 32 --knobs tiled" in capsys.readouterr().out
    with Database(path) as db:
        assert {record.function.partition(":")[0] for record in db.records()} != {""}
    assert main([*words, "--knobs", f"{file}:tiled", "--trials", "1"]) == 0
    assert "none measured now" in capsys.readouterr().out
    for knobs, message in (
        ("other", "has no function 'other'"),
        (f"{tmp_path}/no.py:tiled", "there is no file"),
    ):
        assert main([*words, "--knobs", knobs]) == 2
        assert message in capsys.readouterr().err
    assert main(["tune", str(file), *words[2:], "--knobs", "tiled", "--trials", "1"]) == 0
    assert "none measured now" in capsys.readouterr().out  # what schedules is no program
    assert main(["tune", f"{file}:tiled", *words[2:]]) == 2
    said = capsys.readouterr().err
    assert "tiled makes no program: its parameter 'sch' is no size: it is asked for 'split'" in said
    assert "--knobs" in said
    file.write_text(FILE.replace("    sch.split", "    sch.parallel(1)\n    sch.split"))
    assert main([*words, "--knobs", "tiled"]) == 1
    said = capsys.readouterr().err
    assert "line 9 of kernels.py: schedule function 'tiled' failed with no knobs: parallel" in said


def test_functions_whose_parameters_are_sizes():
    assert not any(map(no_size, EXAMPLES.values()))
    assert no_size(lambda x: x.shape) == "its parameter 'x' is no size: it is asked for 'shape'"
    n = te.var("n")

    def sums(rows=4, size=n.name):
        size = te.var("n") if size else rows.bit_length()
        return (lambda rows: rows.shape)(size.dtype)

    assert not no_size(sums)
