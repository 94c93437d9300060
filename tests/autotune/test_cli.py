"""The command line, in this process: what it prints, and the status it returns."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from autotune import default_schedule
from autotune.cli import main
from autotune.cli.entry import make_parser
from autotune.cli.output import plain_table, show_table
from autotune.cli.program import chosen
from autotune.database.database import Database
from autotune.database.records import Record, Verdict
from autotune.examples import EXAMPLES, make_example
from autotune.machine.machine import this_machine
from tensorir import TensorIRError

ROOT = Path(__file__).parents[2]
MATMUL = ["matmul", "--shape", "m=16", "n=16", "k=16"]
pytestmark = pytest.mark.usefixtures("any_peaks")

KERNELS = """
from tensorir import te

def double(n: int = 8):
    A = te.placeholder((n,), "float32", name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def no_default(rows: int):
    return double(rows)

def symbolic():
    return double(te.var("n"))

def broken():
    return 1 // 0

def number():
    return 7
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def refused(capsys, *words: str) -> str:
    """The message of a command line that is wrong."""
    assert main(words) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("words", [("space", "matmul"), ("--help",), ()])
def test_output_that_is_closed_or_full(words, capsys, monkeypatch):
    """A full disk is told in one line; whoever closes the output wants none."""
    usual = main(words)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(words) == usual
    with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(words) == 1
    assert capsys.readouterr().err.endswith("error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("command", ["tune", "best", "space", "explain"])
@pytest.mark.parametrize("target", ["cobol", "c -march=nope", "c -cc=no_such_cc", "c -threads=x"])
def test_a_target_that_is_none_is_wrong_use(file, capsys, command, target):
    """Of one program or of all in a file; a compiler that a target names and nobody has too."""
    for program in (f"{file}:double", "matmul", *([file] if command == "tune" else [])):
        error = refused(capsys, command, program, "--target", target)
        assert error.startswith("error: ") and target.rpartition("=")[2] in error


def test_a_warning_is_one_line_however_many_find_it(capsys, monkeypatch):
    def warned(*args, **options):
        for caller in (1, 2):
            warnings.warn("the cache cannot be written", stacklevel=caller)
        raise TensorIRError("and nothing ran")

    monkeypatch.setattr("autotune.cli.tune.tune", warned)
    status = main(["tune", *MATMUL])
    said = capsys.readouterr().err.splitlines()
    assert status == 1
    assert said == ["warning: the cache cannot be written", "error: and nothing ran"]


def test_no_command_prints_the_help(capsys):
    assert main([]) == 2
    assert "tune" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["tune", "best", "report", "space", "db", "doctor"])
def test_help_has_examples(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"tensorir {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_space_says_what_a_search_looks_at(capsys):
    assert main(["space", *MATMUL, "--target", "c -vector_bits=128 -threads=2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("matmul on c -threads=2 -vector_bits=128")
    assert "\nnests: " in out and "\nuntouched: 1 candidate\n" in out
    assert "C.sums" in out and "whether sums are kept in registers" in out
    assert main(["space", *MATMUL, "--numerics", "bitwise"]) == 0
    assert "sums are reassociated" not in capsys.readouterr().out


def test_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "autotune", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("tensorir ")


def test_tune_then_take_it_from_the_database(pretended, tmp_path, capsys):
    database = str(tmp_path / "new.db")
    words = ["tune", *MATMUL, "--trials", "2", "--database", database, "--quiet"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "2 measured now" in first
    assert f"tensorir tune {' '.join(MATMUL)} --database {database} --more 32" in first
    assert main(words) == 0
    second = capsys.readouterr().out
    assert "none measured now: the result is from the database" in second
    with Database(database) as db:
        assert sum(not r.is_final for r in db.records()) == 2


def test_ctrl_c_says_how_much_is_stored(stored, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.tune.tune", interrupted)
    assert main(["tune", *MATMUL, "--database", stored]) == 130
    err = capsys.readouterr().err
    assert f"stopped; 8 finished trials are stored in {stored}" in err
    assert f"continue with: tensorir tune {' '.join(MATMUL)}" in err


def test_more_counts_from_what_is_stored(stored, monkeypatch):
    seen = []

    def stop(func, target, trials, *rest, **options):
        seen.append(trials)
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.tune.tune", stop)
    main(["tune", *MATMUL, "--database", stored, "--more", "5"])
    main(["tune", *MATMUL, "--database", stored])
    assert seen == [13, None]
    with Database(stored) as db:  # of other rules, which do not count
        db.add_many([r.with_(rules="other", session="t") for r in db.records()])
        db.delete([r.id for r in db.records() if r.session != "t"][2:])
    main(["tune", *MATMUL, "--database", stored, "--more", "5"])
    assert seen[2:] == [7]


def test_tune_passes_its_options_on(stored, monkeypatch):
    seen = {}

    def stop(func, target, trials, seed, db, **options):
        seen.update(options, trials=trials, seed=seed, target=str(target))
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.tune.tune", stop)
    words = "--more 5 --seed 3 --numerics bitwise --strategy random --cost-model random"
    words += " --seconds 1.5 --until converged --target c\\ -threads=1"
    main(["tune", *MATMUL, "--database", stored, *shlex.split(words)])
    assert seen["trials"] == 5  # what is stored is for another target
    assert (seen["seed"], seen["numerics"], seen["strategy"]) == (3, "bitwise", "random")
    assert (seen["cost_model"], seen["seconds"], seen["until"]) == ("random", 1.5, "converged")
    assert "-threads=1" in seen["target"]


def test_tune_by_the_costs_that_were_measured(tmp_path, monkeypatch):
    seen = []

    def stop(*args, costs, **options):
        seen.append(costs)
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.tune.tune", stop)
    database = str(tmp_path / "t.db")
    for options in ((), ("--costs", "measured")):
        main(["tune", *MATMUL, "--database", database, *options])
    assert seen == [None, "measured"]


def test_best(stored, capsys):
    assert main(["best", *MATMUL, "--database", stored]) == 0
    out = capsys.readouterr().out
    assert "1 ms" in out
    assert "one of 8 trials" in out


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("ir", "@prim_func"),
        ("trace", "["),
        ("source", "/* matmul"),
        ("schedule", '"""matmul: 1 ms on'),
    ],
)
def test_best_shows_nothing_else(stored, capsys, form, start):
    assert main(["best", *MATMUL, "--database", stored, "--show", form]) == 0
    out = capsys.readouterr().out
    assert out.startswith(start)
    if form == "trace":
        json.loads(out)


PROGRAMS = """
from tensorir import te

def symbolic():
    n = te.var("n")
    A, W = te.placeholder((n, 33), name="A"), te.placeholder((33, 17), name="W")
    k = te.reduce_axis(33, name="k")
    C = te.compute((n, 17), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    return [A, W, C]

def build(n: int = 40):
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    return [A, B, te.compute((n,), lambda i: te.exp(B[i]), name="C")]

def bits(n: int = 24):
    A = te.placeholder((n, 8), "bfloat16", name="A")
    B = te.placeholder((8, n), "bfloat16", name="B")
    k = te.reduce_axis(8, name="k")
    product = lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k)
    return [A, B, te.compute((n, n), product, name="C")]
"""
SHOWN = {
    "an example": ["matmul", "--shape", "m=16", "n=16", "k=16"],
    "stages": ["softmax", "--shape", "m=8", "n=40"],
    "constants and a symbolic size": ["symbolic", "--shape", "n=9", "--constants", "W"],
    "several outputs, and a name that the file needs": ["build"],
    "bfloat16, one thread": ["bits", "--target", "c -threads=1"],
}


@pytest.mark.parametrize("kind", SHOWN)
def test_the_shown_schedule_is_a_file_that_runs(tmp_path, capsys, monkeypatch, kind):
    """One of them in a process of its own, which knows nothing of the command line."""
    monkeypatch.undo()
    name, *options = SHOWN[kind]
    if name not in EXAMPLES:
        (tmp_path / "programs.py").write_text(PROGRAMS)
        name = f"{tmp_path / 'programs.py'}:{name}"
    words = [name, *options, "--database", str(tmp_path / "new.db")]
    program = chosen(make_parser().parse_args(["best", *words]))
    made = default_schedule(program.func, program.target, program.constants)
    with Database(tmp_path / "new.db") as db:
        db.add(
            Record(
                program.workload, str(program.target), this_machine().key, "ok", median=1e-3,
                verdict=Verdict(True), trace=tuple(made.trace.as_json()),
                conditions=program.conditions,
            )
        )  # fmt: skip
    assert main(["best", *words, "--show", "schedule"]) == 0
    shown, ir = capsys.readouterr().out, tmp_path / "ir"
    assert main(["best", *words, "--show", "ir"]) == 0
    ir.write_text(capsys.readouterr().out)
    script = tmp_path / "shown.py"
    script.write_text(shown + f"assert str(sch.func).strip() == open({str(ir)!r}).read().strip()\n")
    said = run_alone(script) if kind == "stages" else run_here(script, capsys)
    assert "right, largest error" in said
    assert said.count("right") == (2 if "several" in kind else 1)


def run_alone(script: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=script.parent, env=environment, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_here(script: Path, capsys) -> str:
    runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out


def test_best_exports(stored, tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["best", *MATMUL, "--database", stored, "--export", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["matmul.c", "matmul.h"]


def test_best_explains_a_miss(stored, capsys):
    assert main(["best", "matmul", "--shape", "m=32", "--database", stored]) == 1
    err = capsys.readouterr().err
    assert "other shapes: A[16, 16]" in err
    assert "tune it with: tensorir tune matmul --shape m=32" in err


def test_reading_makes_no_database(tmp_path, capsys):
    path = tmp_path / "none.db"
    for words in (["best", *MATMUL], ["report"], ["db", "list"], ["db", "stats"]):
        assert main([*words, "--database", str(path)]) == 1
        assert "there is no tuning database" in capsys.readouterr().err
    assert not path.exists()


def test_wrong_programs_are_refused(file, capsys):
    assert "no size 'q'; it has m, n, k" in refused(capsys, "tune", "matmul", "--shape", "q=1")
    assert "POSITIVE_INTEGER" in refused(capsys, "tune", "matmul", "--shape", "m=0")
    assert "neither an example nor a .py file" in refused(capsys, "tune", "nothing")
    assert "'matmul' is no .py file: write FILE.py" in refused(capsys, "sanitize", "matmul")
    assert "no file 'none.py'" in refused(capsys, "tune", "none.py")
    assert "it has double, no_default" in refused(capsys, "best", file)
    assert "no_default needs sizes: --shape rows=128" in refused(capsys, "tune", file)
    assert "no function 'x'" in refused(capsys, "tune", f"{file}:x")
    assert "needs sizes: --shape rows=128" in refused(capsys, "tune", f"{file}:no_default")
    assert "ZeroDivisionError" in refused(capsys, "tune", f"{file}:broken")
    assert "gives a int" in refused(capsys, "tune", f"{file}:number")
    assert "no size 'm'" in refused(capsys, "tune", f"{file}:double", "--shape", "m=4")
    assert "unknown target kind 'foo'" in refused(capsys, "tune", "matmul", "--target", "foo")


MISTAKES = {
    "x = 1\ny = nothing\n": "cannot be loaded, line 2: NameError: name 'nothing'",
    "import json\n\nimport nowhere\n": "cannot be loaded, line 3: ModuleNotFoundError",
    "def f(:\n": "cannot be loaded: SyntaxError: invalid syntax (bad.py, line 1)",
    "from tensorir import te\nA = te.placeholder((-1,))\n": "cannot be loaded, line 2: ",
    "def f(n=1):\n    return g(n)\n\ndef g(n):\n    return n // 0\n": (
        "bad.py:f failed, line 5: ZeroDivisionError"
    ),
    "from tensorir import te\n\ndef f(n=4):\n    A = te.placeholder((n,), name='A')\n"
    "    B = te.compute((n,), lambda i: A[i] + B, name='B')\n    return [A, B]\n": (
        "bad.py:f failed, line 5: NameError"
    ),
    "from tensorir import te\n\ndef f(n=4):\n    A = te.placeholder((n,), name='A')\n"
    "    B = te.compute((n,), lambda i: A[i + 1], name='B')\n"
    "    return te.create_prim_func([A, B])\n": "bad.py:f failed, line 5: tensor 'B' can read",
    "from tensorir import te\n\ndef f(n=4):\n    A = te.placeholder((n,), name='A')\n"
    "    return [A, te.compute((n,), lambda i: A[i], name='B'), 3]\n": "bad.py:f failed: ",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
@pytest.mark.parametrize("relative", [True, False])
def test_a_mistake_in_a_file_is_told_with_its_line(text, relative, tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.py"
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    assert MISTAKES[text] in refused(capsys, "tune", "bad.py" if relative else str(path))


def test_programs_of_a_file(file, tmp_path, capsys):
    database = str(tmp_path / "empty.db")
    Path(database).touch()
    tail = ["--database", database]
    assert main(["best", f"{file}:double", "--shape", "n=4", *tail]) == 1
    assert main(["best", file, "--function", "symbolic", "--shape", "n=4", *tail]) == 1
    assert "is empty" in capsys.readouterr().err


def test_symbolic_sizes_are_asked_for(file, tmp_path, capsys):
    words = ["tune", f"{file}:symbolic", "--database", str(tmp_path / "new.db")]
    assert "--shape n=128" in refused(capsys, *words)


def test_errors_are_one_message_without_a_traceback(tmp_path, capsys):
    assert main(["tune", *MATMUL, "--database", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {str(tmp_path)!r} is a folder")
    assert "Traceback" not in err


def test_no_compiler_is_status_2(monkeypatch, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "there is no such command" in refused(capsys, "tune", "matmul")


@pytest.mark.parametrize("name", ["bench", "demo"])
def test_what_is_no_part_of_an_installation(monkeypatch, tmp_path, capsys, name):
    monkeypatch.setattr("autotune.cli.delegate.SUITE", tmp_path / "suite.py")
    assert main([name]) == 1
    assert f"make {name}" in capsys.readouterr().err


def test_bench_runs_the_suite_with_its_options(monkeypatch, tmp_path):
    suite = tmp_path / "suite.py"
    suite.write_text("import sys; sys.exit(len(sys.argv))")
    monkeypatch.setattr("autotune.cli.delegate.SUITE", suite)
    assert main(["bench", "--quick", "--trials"]) == 3


def test_tables_on_a_terminal_cut_their_last_column_only(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    show_table(["name", ">n", "text"], [["a" * 20, 1, "word " * 20]])
    out = capsys.readouterr().out
    assert "a" * 20 in out
    assert len(out.splitlines()) == 2


def test_plain_tables_are_aligned():
    text = plain_table(["name", "n"], [False, True], [["a", "10"], ["long", "2"]])
    assert text.splitlines() == ["name   n", "----  --", "a     10", "long   2"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_agree_with_their_definition(name):
    import numpy as np

    from backends import build, random_arguments
    from tensorir import reference

    small = {"m": 3, "n": 5, "k": 7, "size": 9, "h": 4, "w": 5, "c": 2, "r": 3, "s": 3}
    sizes = {"conv2d_bias_relu": ("h", "w", "c", "k"), "elementwise": ("size",)}
    known = sizes.get(name) or (("m", "n", "k") if name in ("matmul", "linear_relu") else "mn")
    func = make_example(name, {key: small[key] for key in known})
    kernel = build(func)
    inputs = random_arguments(kernel.signature, {}, np.empty)[: len(func.inputs)]
    np.testing.assert_allclose(kernel(*inputs), reference(func, *inputs)[0], rtol=1e-5, atol=1e-5)


RUN = """
import sys
from autotune.cli import main
from autotune.tuning import batches
batches.BATCH = 2
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_killed_run_keeps_its_trials(tmp_path, few_builds_code):
    path = tmp_path / "killed.db"
    words = [*MATMUL, "--trials", "500", "--strategy", "random", "--cost-model", "random"]
    words += ["--database", str(path), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", few_builds_code + RUN, "tune", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and stored_trials(path) < 1:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"stopped; {stored_trials(path)} finished trial" in err
    assert stored_trials(path) >= 1


def stored_trials(path: Path) -> int:
    if not path.exists():
        return 0
    with Database(path) as db:
        return len(db.records())
