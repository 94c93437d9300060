"""The report of the tuner: its sections are there, and say what their figures say."""

from __future__ import annotations

import json
import random
from argparse import Namespace
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from autotune.database.records import Workload
from autotune.simulate import Recorded
from autotune.space import Candidate
from benchmarks.table import write_readme
from benchmarks.tuner import (
    dealt,
    formulas,
    kills,
    memory,
    metaschedule,
    neighbours,
    record,
    seconds,
    transfer,
)
from benchmarks.tuner.__main__ import LIVE, SECTIONS, SIMULATED
from benchmarks.tuner.__main__ import main as report
from benchmarks.tuner.section import Section, publish
from benchmarks.tuner.workloads import FAMILIES, NEIGHBOURS
from tests.autotune.test_simulate import MADE


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_a_command(name, capsys):
    module = import_module(SECTIONS[name])
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and all(f"--{o}" in said for o in ("quick", "write-readme"))


def test_the_simulated_ones_run_where_nothing_is_asked_for(monkeypatch, capsys):
    run = []
    for name, module in SECTIONS.items():
        said = lambda words, name=name: run.append((name, words)) or 0  # noqa: E731
        monkeypatch.setattr(f"{module}.main", said)
    assert report([]) == report(["--live", "--seeds", "3", "--write-readme"]) == 0
    words = ["--seeds", "3", "--write-readme"]
    assert run == [(n, []) for n in SIMULATED] + [(n, words) for n in (*SIMULATED, *LIVE)]


def test_a_section_is_written_where_it_belongs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.tuner.section.ROOT", tmp_path)
    given = "mark", "f.json", "all", ("a", "b"), [("x", "1")], {"k": 2}
    section = Section(*given, notes=("So.",), failed=("No",))
    readme = tmp_path / "README.md"
    readme.write_text("before <!-- mark -->\nold<!-- /mark --> after\n")
    options = Namespace(json=tmp_path / "to" / "f.json", quick=False, write_readme=True)
    assert publish(section, options) == 1
    assert capsys.readouterr().err == "No\n"
    assert json.loads(options.json.read_text()) == {"k": 2}
    table = "| a | b |\n| --- | ---: |\n| x | 1 |\n\nSo.\n"
    assert readme.read_text() == f"before <!-- mark -->\n{table}<!-- /mark --> after\n"
    assert write_readme(readme, "mark", table) and readme.read_text().count("| x |") == 1
    readme.write_text("none")
    assert publish(replace(section, failed=()), options) == 2


def test_formulas_order_candidates_no_worse_than_what_needs_them_built(tmp_path, capsys):
    """On recorded times; those of general nests, of moves and of several plans are among them."""
    found = tmp_path / "found.json"
    words = ["--only", "softmax", "--only", "mlp", "--only", "matmul", "--json", str(found)]
    assert formulas.main(words) == 0
    rows = json.loads(found.read_text())["sketches"]
    told = [row for row in rows if row["formula"] is not None]
    assert len(told) > 6 and {"nests", "out:contraction"} <= {row["sketch"] for row in told}
    assert sum(row["formula"] for row in told) > sum(row["draft"] for row in told)
    bad = formulas.Told("mlp", "nests", 100, 0.9, 0.6)
    assert bad.is_worse and not replace(bad, formula=0.8).is_worse
    assert "measured times" in capsys.readouterr().out


def test_shares_of_a_search_add_up():
    phases = {"compiling": 1.0, "race": 1.0}
    run = {"wall": 4.0, "search": 3.0, "phases": phases, "repeated": 0}
    cells = seconds._cells(seconds.TASKS[0], [run])
    shares = ("25%", "0%", "0%", "25%", "0%", "0%", "25%", "25%")
    assert cells[1:] == ("4.0", "12", *shares, "0")


def test_hints_of_a_neighbour_save_trials(tmp_path, capsys):
    assert transfer.main(["--recorded", str(tmp_path), "--jobs", "1"]) == 2
    assert "--record" in capsys.readouterr().err
    made = replace(MADE, name="mlp")
    made.write(tmp_path / "mlp.jsonl.gz")
    best = min((e for e in made.entries if e.seconds), key=lambda e: e.seconds).candidate
    known = dict(zip(made.choices[best.sketch], best.values), since="then")
    stored = {"workloads": {"mlp": {"sizes": NEIGHBOURS["mlp"], "best": [[best.sketch, known]]}}}
    (tmp_path / transfer.FILE).write_text(json.dumps(stored))
    words = ["--recorded", str(tmp_path), "--jobs", "1", "--seeds", "1", "--trials", "16"]
    found = tmp_path / "found.json"
    assert transfer.main([*words, "--json", str(found)]) == 0
    (told,) = json.loads(found.read_text())["workloads"]
    assert told["hints"] == [1, 1] and len(told["alone"]) == 16
    assert max(told["hinted"][7:]) <= 1.05 < told["alone"][0], "in the first batch"
    assert "% of the trials" in capsys.readouterr().out
    slow, fast = [1.3, 1.2, 1.1, 1.04], [1.3, 1.02, 1.1, 1.0]
    for alone, hints, hinted, kind in (
        ([1.05, 1.0], (2, 2), [1.05, 1.2], transfer.NOTHING),
        (slow, (2, 0), slow, transfer.UNKNOWN),
        (slow, (0, 0), slow, "0%"),
        (slow, (2, 1), fast, "50%"),
        ([1.2, 1.2], (1, 1), [1.3, 1.2], transfer.NEITHER),
        ([1.2, 1.0], (1, 1), [1.3, 1.0], "0%"),
    ):
        runs = np.array([alone]), np.array([hinted])
        assert transfer.Spent("mlp", hints, None, *runs).kind == kind
    apart = np.array([[1.2, 1.0], [1.0, 1.0]])
    spent = transfer.Spent("mlp", (1, 1), None, apart, apart)
    assert transfer.trials_to(apart) == 2 and transfer._interval([spent]) == (0.0, 0.0)


def test_candidates_of_other_rules_are_not_left_out_in_silence(tmp_path, capsys):
    """Rules get choices, and what was found before has no values for them."""
    options = Namespace(out=tmp_path, work=tmp_path / "work", count=4)
    space = record._recorder(options, "matmul").space
    sketch = next(iter(space.sketches.values()))
    known = sketch.decisions(space.sample(random.Random(0), sketch.name).values)
    fewer = dict(list(known.items())[1:])
    best = [[sketch.name, known], [sketch.name, fewer], ["of other rules", known]]
    stored = {"workloads": {"matmul": {"best": best}}}
    (tmp_path / record.FILE).write_text(json.dumps(stored))
    assert not capsys.readouterr().err
    recorder = record._recorder(options, "matmul")
    assert [sketch.decisions(c.values) for c in recorder.also] == [known]
    assert "matmul: 2 of 3 candidates" in capsys.readouterr().err


def test_live_searches_are_judged_by_who_wins_the_race(tmp_path, monkeypatch, capsys):
    """By times that are taken afterwards: what looked fast by luck loses to the default, and so
    says nothing of what a search has found."""

    def search(func, options, seed, given):
        seen = [("d", 2.0), ("lucky", 1.9), ("best", 1.95), ("hint", 9.0)] if given else [
            ("d", 2.0), ("lucky", 1.9), ("none", None), ("best", 1.9),
        ]  # fmt: skip
        return [
            Namespace(
                sketch="s", decisions=[c], status="ok" if t else "crash", median=t and t / 1e5
            )
            for c, t in seen
        ]

    def timed(func, target, records):
        names = {record.decisions[0] for record in records}
        assert names == {"d", "lucky", "best", "hint"}, "those that may win, and hints"
        times = {"d": 1.3, "lucky": 2.0, "best": 1.0, "hint": 1.2}
        return [
            Recorded(Candidate("s", (name,)), "ok", visits=(times[name] / 1e5,) * neighbours.ROUNDS)
            for name in sorted(names)
        ]

    session = Namespace(default=Candidate("s", ("d",)))
    monkeypatch.setattr(neighbours, "searched", lambda func, target, trials, seed, db, **_: None)
    monkeypatch.setattr(neighbours, "start_session", lambda *given: session)
    monkeypatch.setattr(neighbours, "hints", lambda session: [Candidate("s", ("hint",))])
    monkeypatch.setattr(neighbours.Database, "records", lambda db: ["some"])
    monkeypatch.setattr(neighbours, "_search", search)
    monkeypatch.setattr(neighbours, "_timed", timed)
    path = tmp_path / "found.json"
    words = ["--only", "mlp", "--seeds", "2", "--trials", "4", "--json", str(path)]
    assert neighbours.main(words) == 0
    (told,) = json.loads(path.read_text())["workloads"]
    assert told["alone"] == [1.3, 1.3, 1.3, 1.0] and told["hinted"] == [1.3, 1.3, 1.0, 1.0]
    assert told["theirs"] == 1.2 and told["hints"] == [1, 1]
    assert "25%" in capsys.readouterr().out


def test_a_neighbour_is_another_size_of_the_same_program():
    assert NEIGHBOURS.keys() == FAMILIES.keys()
    for name, sizes in NEIGHBOURS.items():
        near, func = FAMILIES[name](**sizes), FAMILIES[name]()
        assert [p.name for p in near.params] == [p.name for p in func.params]
        assert [p.shape for p in near.params] != [p.shape for p in func.params]
        assert Workload.of(near).structure == Workload.of(func).structure


def test_a_search_on_dealt_times_gives_its_answer_again(tmp_path, monkeypatch):
    """However it was ended; a search whose answer is another one is a failure of the section. One
    that came to its end and went on has held one more race, whose rounds tell by how much."""
    monkeypatch.setattr(dealt, "BUILDS", 8)
    monkeypatch.setattr(dealt, "PAUSE_S", 0.0)
    path = tmp_path / "mlp.jsonl.gz"
    replace(MADE, name="mlp").write(path)
    whole = dealt.search(path, tmp_path / "whole.db", 4, 0)
    dealt.search(path, tmp_path / "cut.db", 2, 0)
    again = dealt.search(path, tmp_path / "cut.db", 4, 0)
    assert again["tried"] == whole["tried"] and again["answer"][:3] == whole["answer"][:3]
    assert len(whole["tried"]) >= 4 and whole["answer"][2] > 0
    task = kills.Task(path, 4)
    good, bad = kills.Killed(0.5, 2, False, True), kills.Killed(0.9, 4, True, False)
    assert not kills._section(task, [good], 0, 1.0).failed
    section = kills._section(task, [good, bad], 0, 1.0)
    assert section.lines[-1] == ("all", "2", "1") and section.failed


def test_rows_beside_tvm_are_taken_up_again(tmp_path):
    options = Namespace(trials=64, theirs=None, threads=2, quick=False)
    times = {"default": [[2.0] * 5, 1], "tuned": [[1.0] * 5, 1], "tvm": [[3.0] * 5, 1]}
    took = {"tensorir": 10.0, "tvm": 50.0}
    row = {"name": "a", "times": times, "seconds": took, "missing": {}, "others": None}
    half = {**row, "name": "b", "times": {"tuned": times["tuned"]}, "missing": {"tvm": "crashed"}}
    path = tmp_path / "found.json"
    path.write_text(json.dumps(metaschedule._data({"a": row, "b": half}, options)))
    assert list(metaschedule._stored(path, options)) == ["a"]
    assert not metaschedule._stored(path, Namespace(trials=16, theirs=None, threads=2))
    known = {"a": row, "b": half}
    section = metaschedule._section(["a", "b"], known, options)
    assert section.lines[0][4] == "3.00 [3.00, 3.00]" and section.failed == ["b: tvm: crashed"]
    assert "over ours): 3.00, in 0.20 of its seconds" in section.notes[0]
    some = metaschedule._section(["a"], known, options)
    assert len(some.lines) == 1 and [kept["name"] for kept in some.data["rows"]] == ["a", "b"]
    assert some.notes[1].startswith("Not run: matmul 512, ")
    more = metaschedule._section(["a"], known, Namespace(**{**vars(options), "theirs": 256}))
    assert (section.mark, section.file) == ("tuner-tvm", "metaschedule.json")
    assert (more.mark, more.file) == ("tuner-tvm-256", "metaschedule-256.json")
    assert len(metaschedule.ROWS) == 12 and len({r.name for r in metaschedule.ROWS}) == 12


def test_memory_is_looked_at_after_every_build():
    pages = memory.resident("kernels", 2)
    assert len(pages) == 2 and all(kib > 1024 for kib in pages)
