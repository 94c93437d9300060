"""The commands that show and keep what a database has: what they print, and their status."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autotune.cli import main
from autotune.database.database import Database
from autotune.database.records import Workload
from autotune.examples import make_example

MATMUL = ["matmul", "--shape", "m=16", "n=16", "k=16"]
pytestmark = pytest.mark.usefixtures("any_peaks")


def test_report_of_one_workload(stored, capsys):
    assert main(["report", "some/kernels.py:matmul", "--database", stored]) == 0  # as of `tune`
    assert "wrong_result" in capsys.readouterr().out
    assert main(["report", "matmul.py:", "--database", stored]) == 1
    capsys.readouterr()
    assert main(["report", "matmul", "--database", stored, "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "8: 6 ok, 1 crash, 1 wrong_result" in out
    lines = out.splitlines()
    rows = [line.split() for line in lines[lines.index(next(x for x in lines if x[:2] == "--")) :]]
    assert [r[:3] for r in rows[1:5]] == [
        ["8", "best", "ok"], ["7", "ok", "2"], ["4", "ok", "5"], ["1", "default", "ok"],
    ]  # fmt: skip
    assert "1 ms (trial 8, timed alone)" in out
    assert "8 ms  8.00 x the best time (trial 1, timed alone)" in out
    assert "rank correlation 1.00" in out
    assert "1 x crash: died of SIGSEGV" in out
    assert "... 4 more trials" in out


def test_trials_are_counted_alike_everywhere(stored, capsys):
    """From 1, and races are none."""
    with Database(stored) as db:
        last = db.records()[-1]
        db.add(last.with_(settings={"final": True}, median=3e-3))
    words = ["--database", stored]
    assert main(["db", "sessions", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[3:5] == ["8", "6"]
    assert main(["best", *MATMUL, *words]) == 0
    assert "one of 8 trials" in capsys.readouterr().out
    assert main(["db", "list", *words]) == 0
    assert "  8   6  3 ms" in capsys.readouterr().out
    assert main(["report", "matmul", *words]) == 0
    assert "3 ms (trial 8, timed in the race)" in capsys.readouterr().out
    assert main(["db", "show", last.id, *words]) == 0
    assert "trial 8, seed" in capsys.readouterr().out


def test_report_lists_workloads(stored, capsys, made_records):
    with Database(stored) as db:
        db.add_many(made_records(make_example("row_sum", {"m": 8, "n": 256})))
        db.add_many(made_records(make_example("matmul", {"m": 8, "n": 8, "k": 8})))
    assert main(["report", "--database", stored]) == 0
    assert "row_sum" in capsys.readouterr().out
    assert main(["report", "matmul", "--database", stored]) == 2
    assert "give the head of a key" in capsys.readouterr().err
    key = Workload.of(make_example("row_sum", {"m": 8, "n": 256})).key
    assert main(["report", key[:12], "--database", stored]) == 0


def test_report_plots(stored, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curve.png"
    assert main(["report", "--database", stored, "--plot", str(picture)]) == 0
    assert picture.exists()


def test_report_of_an_unknown_name(stored, capsys):
    assert main(["report", "nothing", "--database", stored]) == 1
    assert "there are records of: matmul" in capsys.readouterr().err


def test_report_of_some_sizes_of_a_symbolic_program(stored, capsys):
    """Each size is a report of its own, and who asks for one gets that."""
    with Database(stored) as db:
        for record in db.records():
            for n in (16, 48):
                sizes = replace(record.conditions, sizes={"m": n, "n": n})
                db.add(record.with_(conditions=sizes))
    words = ["report", "matmul", "--database", stored, "--limit", "1"]
    for shape, many in (((), 3), (("m=48",), 1), (("m=16", "n=16"), 1)):
        assert main([*words, *(["--shape", *shape] if shape else [])]) == 0
        out = capsys.readouterr().out
        assert out.count("measured with") == many
        assert not shape or f"measured with  m={shape[0][2:]}, n={shape[0][2:]}" in out
    assert main([*words, "--shape", "m=16", "n=48"]) == 1
    assert "no records with m=16, n=48; there are records of: m=16, n=16" in capsys.readouterr().err


def test_db_lists_and_counts(stored, capsys):
    for action in ("list", "stats", "sessions"):
        assert main(["db", action, "--database", stored]) == 0
    out = capsys.readouterr().out
    assert "16x16 16x16 16x16" in out
    assert "6 ok, 1 crash, 1 wrong_result" in out


def test_db_exports_and_imports(stored, tmp_path, capsys):
    lines, other = str(tmp_path / "best.jsonl"), str(tmp_path / "other.db")
    assert main(["db", "export", lines, "--best", "--database", stored]) == 0
    assert "wrote 1 record" in capsys.readouterr().err
    assert main(["db", "import", lines, "--database", other]) == 0
    assert "1 added" in capsys.readouterr().out
    assert main(["best", *MATMUL, "--database", other]) == 0


def test_db_import_reports_what_it_cannot_read(tmp_path, capsys):
    (tmp_path / "torn.jsonl").write_text("{")
    path = str(tmp_path / "torn.jsonl")
    assert main(["db", "import", path, "--database", str(tmp_path / "new.db")]) == 1
    assert "line 1: not JSON" in capsys.readouterr().out


def test_db_prune(stored, capsys):
    assert main(["db", "prune", "--keep", "2", "--database", stored]) == 0
    assert "deleted" in capsys.readouterr().out
    with Database(stored) as db:
        assert len(db.records()) < 8
    assert main(["db", "prune", "--keep", "-1", "--database", stored]) == 2
    assert "'-1' is not an integer" in capsys.readouterr().err


def test_db_show(stored, capsys):
    with Database(stored) as db:
        first = db.records()[0]
    assert main(["db", "show", first.id[:8], "--database", stored]) == 0
    assert "def matmul" in capsys.readouterr().out
    assert main(["db", "show", first.id, "--json", "--database", stored]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == first.id
    assert main(["db", "show", "zzz", "--database", stored]) == 1
    assert main(["db", "show", "", "--database", stored]) == 2
    assert "8 records have an id" in capsys.readouterr().err


def test_db_explain(stored, capsys):
    assert main(["db", "explain", *MATMUL, "--database", stored]) == 0
    assert "there is one: 1 ms" in capsys.readouterr().out
    assert main(["db", "explain", "row_sum", "--database", stored]) == 1
    assert "computes what 'row_sum' computes" in capsys.readouterr().out
