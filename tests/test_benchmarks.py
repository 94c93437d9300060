"""The benchmark suite: its operators say what their data say, and it runs from end to end."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autotune import Database
from autotune.tuning.session import start_session
from backends import why_not_here
from benchmarks import searched
from benchmarks.case import relative_error
from benchmarks.wrong_winners import drawn, judged, search_once, second_load
from tensorir import reference
from tensorir.ops.registry import Example, known_operators, prim_func
from tests.brief import BRIEF

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = load("operators").make_cases(quick=True)


def run_suite(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(FOLDER / "suite.py"), "--quick", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_no_search_is_answered_by_what_ships(monkeypatch):
    """Benchmarks, and the processes that tests start, time what is searched here and now."""
    given = []
    monkeypatch.setattr(searched, "tune", lambda *args, **options: given.append((args, options)))
    searched.searched("func", "c", trials=3)
    assert given == [(("func", "c"), {"trials": 3, "shipped": False})]
    direct = [
        path.relative_to(FOLDER).as_posix()
        for path in sorted(FOLDER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autotune")
        and "tune" in [alias.name for alias in node.names]
        or isinstance(node, ast.Attribute) and node.attr == "tune"
    ]  # fmt: skip
    assert direct == ["searched.py"], "call benchmarks.searched"
    script = "from autotune.database import shipped; print(len(shipped.all_shipped()))"
    assert subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True) == "0\n"


@pytest.mark.parametrize("name", CASES)
def test_the_library_is_right(name):
    case = CASES[name]()
    assert case.name == name
    for form, call in case.library.items():
        assert relative_error(call().reshape(case.expected.shape), case.expected) < 1e-6, form


@pytest.mark.parametrize("name", CASES)
def test_the_program_means_what_the_library_computes(name):
    case = CASES[name]()
    (found,) = reference(case.func, *case.inputs)
    assert found.shape == case.expected.shape
    assert relative_error(np.asarray(found), case.expected) < 1e-6


def test_full_sizes_have_the_names_of_the_figures():
    names = list(load("operators").make_cases(quick=False))
    assert len(names) == len(set(names)) == len(CASES)
    assert {"matmul 1024x1024x1024", "linear+relu 1x200x3072"} <= set(names)


def test_a_row_from_end_to_end(tmp_path):
    file = tmp_path / "found" / "out.json"
    options = ("--trials", "2", "--only", "matmul 16x", "--json", str(file))
    database = ("--database", str(tmp_path / "t.db"))
    done = run_suite(*options, *database)
    assert done.returncode == 0, done.stderr
    data = json.loads(file.read_text())
    (row,) = data["rows"]
    assert row["name"] == "matmul 16x16x16"
    assert set(row["times"]) == {"unscheduled", "default", "tuned", "NumPy"}
    assert all(len(t["blocks"]) == 3 and t["median"] > 0 for t in row["times"].values())
    ratio, low, high = row["over_tuned"]["NumPy"]
    assert low <= ratio <= high
    assert ratio == pytest.approx(data["geometric_mean_speed_up"])
    assert set(row["errors"]) == set(row["times"]) and max(row["errors"].values()) < 1e-5
    assert "threads" in data["environment"]["library"]
    assert "| matmul 16x16x16 |" in file.with_suffix(".md").read_text()
    assert "2 new trials" in done.stdout
    assert "from the database" in run_suite(*options, *database).stdout


def test_an_unknown_row(tmp_path):
    done = run_suite("--only", "transpose", "--database", str(tmp_path / "t.db"))
    assert done.returncode == 2
    assert "matmul 16x16x16" in done.stdout


def run_script(name: str, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(FOLDER / name), *options],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_cold_start_has_all_phases():
    options = ("--runs", "1", "--only", "relu:1")
    head, *lines = run_script("cold_start.py", *options, "--no-bytecode", "--warm")
    assert head.split()[1:] == [*load("cold_start").PHASES, "all", "(cpu)"]
    assert [line.split()[0] for line in lines] == ["relu:1"]
    for line in lines:
        numbers, own = line.split()[1:-1], line.split()[-1]
        known = [int(number) for number in numbers if number != "-"]
        assert numbers.count("-") == 2  # nothing is compiled, so nothing comes after it
        assert abs(known[-1] - sum(known[:-1])) <= len(numbers)  # rounded one by one
        assert int(own.strip("()")) > 0


def test_cold_rows_have_every_operator():
    rows = load("cold_rows").cold_rows()
    assert {name for name, _ in rows.values()} == set(known_operators())
    assert rows["softmax.2"][1].shapes == (("n", "m"),)
    for name, example in rows.values():
        assert prim_func(name, example).inputs


def test_an_unknown_row_of_the_cold_start():
    options = [sys.executable, str(FOLDER / "cold_start.py"), "--only", "softmax.99"]
    done = subprocess.run(options, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no row 'softmax.99'; softmax, softmax.2" in done.stderr


def test_the_overhead_of_calls():
    head, *lines = run_script("call_overhead.py", "--rounds", "1", "--calls", "200")
    assert head.split()[1:] == ["kernel", "bare", "into", "new", "over", "numpy"]
    assert len(lines) == 6
    name, cells = lines[-1][:20].strip(), lines[-1][20:].split()
    assert name == "the same, constant"
    assert cells[1] == "-" and float(cells[2]) > 0


def run_gpu(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(FOLDER / "gpu.py"), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_winners_beside_a_second_load(few_builds):
    func = prim_func("matmul", Example([(16, 16), (16, 16)]))
    with second_load(1) as others:
        assert all(other.poll() is None for other in others)
        run, tried = search_once(func, 0, 2, BRIEF)
    assert all(other.poll() is not None for other in others)
    with Database(":memory:") as db:
        session = start_session(func, "c", db, 0)
        again = drawn(tried, session.space, session.state, 3, random.Random(0))
    assert again[0] == tried[0] == session.default and set(again) == set(tried)
    assert "the default" in run.said
    found = judged(func, [run.winner, run.lowest], rounds=3, min_ms=0.1)
    assert set(found) == {str(run.winner.func), str(run.lowest.func)}


def test_the_benchmark_of_gpus_counts_on_any_machine(tmp_path):
    """A row of memory and one of a product, from the program to the file."""
    path = tmp_path / "gpu.json"
    only = ("--only", "row sum", "--only", "batched 256")
    done = run_gpu("--dry-run", *only, "--json", str(path))
    assert done.returncode == 0, done.stderr
    memory, product = json.loads(path.read_text())["rows"]
    assert memory["name"].startswith("row sum") and product["tile"].startswith("tile 1 x ")
    for row in (memory, product):
        assert row["misses"] == [] and row["error"] < 0.1
        assert 0.95 < row["transactions"] < 1.05 and row["conflicts"] == 1
        assert row["registers"] > 16 and row["occupancy"] >= 0.125 and row["us"] > 0
    assert product["small"] > 2 > memory["small"] >= 1
    assert "2 of 2 rows hold all figures" in done.stdout
    assert run_gpu("--dry-run", "--only", "nothing").returncode == 2


def test_rows_of_gpus_are_of_all_families():
    """As many as a session on a GPU is to time, each with two sizes of the same ranks."""
    from benchmarks.gpus.rows import ROWS

    assert len({row.family.name for row in ROWS.values()}) == 5
    for row in ROWS.values():
        assert [len(s) for s in row.full] == [len(s) for s in row.small], row.name
        for small in (False, True):
            shapes = [p.const_shape for p in row.func(small).inputs]
            assert shapes == list(row.small if small else row.full), row.name
        assert [a.shape for a in row.inputs(small=True)] == list(row.small), row.name
    words = " ".join(ROWS)
    for family in (
        "add relu concat transpose permute channels sum max argmax softmax log-softmax entropy "
        "norm pool stencil depthwise matmul linear batched conv grouped transposed take gather "
        "resize attention feed"
    ).split():
        assert family in words, family


def test_what_does_not_hold_is_said():
    """The figures of a row that moves too much, has conflicts and spills."""
    from dataclasses import replace

    from benchmarks.gpus.counts import as_markdown, cells, count
    from benchmarks.gpus.rows import MEMORY, ROWS

    holds = ROWS["transpose 4097x4099"]
    row = replace(holds, family=replace(MEMORY, most=1.01), why="rows begin within a sector")
    found = count(row)
    assert [m.partition(" ")[0] for m in found.misses] == ["transactions"]
    assert row.why in cells(found)[-1] and "0 of 2 rows" in as_markdown([found], {"b": "?"})
    assert count(holds).misses == ()


def test_the_tools_of_gpus_are_timed():
    named = load("gpu").tools(16)
    assert {"lower and emit", "build for the emulator", "run under the race check"} <= set(named)
    assert all(seconds > 0 for seconds in named.values())


@pytest.mark.skipif(why_not_here("cuda") is None, reason="there is a GPU")
def test_the_benchmark_of_gpus_says_what_is_missing():
    done = run_gpu()
    assert done.returncode == 1 and why_not_here("cuda") in done.stderr
    assert "--dry-run" in done.stderr and "Traceback" not in done.stderr
