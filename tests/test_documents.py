"""The code in the documents runs, and the commands and names in them are there."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune import Database
from autotune.cli.delegate import NAMES as DELEGATED
from autotune.cli.entry import main, make_parser
from autotune.machine.machine import this_machine
from backends import build
from schedule import Schedule
from tensorir import TensorIRError, ops, te

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("*/*.md")]
)  # fmt: skip
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str | Path, kind: str) -> list[str]:
    """The fenced blocks of a kind in a Markdown file."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [code for found, code in BLOCK.findall(text) if found == kind]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def for_types() -> dict[str, Any]:
    n = te.var("n")
    A, B = te.placeholder((n, 8), "float16", name="A"), te.placeholder((8,), "float16", name="B")
    X, Y = te.placeholder((n,), name="X"), te.placeholder((n,), name="Y")
    arrays = {"a": numbers(12), "c": numbers(3), "x": numbers(5), "y": numbers(5)}
    axis = te.reduce_axis(8, name="k")
    return {"te": te, "np": np, "build": build, "A": A, "B": B, "X": X, "Y": Y, "n": n, "k": axis,
            **arrays}  # fmt: skip


def for_the_database() -> dict[str, Any]:
    """A folder with records: those that ship."""
    Path("tuning_logs").mkdir()
    shipped = ROOT / "tuning_logs" / "demo.jsonl"
    shutil.copy(shipped, "theirs.jsonl")
    shutil.copy(shipped, "tuning_logs/NAME.jsonl")
    for path in ("tuning_logs/tuning.db", "theirs.db"):
        with Database(path) as db:
            db.import_jsonl(shipped)
            first = db.records()[0]
    return {"workload": first.workload, "target": first.target, "machine": this_machine()}


def a_softmax() -> dict[str, Any]:
    x = te.placeholder((te.var("n"), 33), name="x")
    func = te.create_prim_func([x, ops.softmax(x)], name="softmax")
    return {"func": func, "sch": Schedule(func), "build": build}


def for_the_emulator() -> dict[str, Any]:
    from backends.cuda.emulator import Launch
    from backends.cuda.prelude import prelude

    text = (ROOT / "tests/backends/cuda/kernels/matmul.cu").read_text(encoding="utf-8")
    arrays = {"A": numbers(256, 256), "B": numbers(256, 256), "C": numbers(256, 256)}
    args = (*arrays.values(), 256, 32)
    launches = [Launch("matmul", grid=(2, 2), block=256, args=args, shared=16384)]
    return {**a_softmax(), **arrays, "source": prelude(text) + text, "launches": launches}


PREPARED: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/cuda_emulator.md": for_the_emulator, "docs/database.md": for_the_database,
    "docs/gpu_counts.md": a_softmax, "docs/types.md": for_types,
    "tuning_logs/README.md": for_the_database,
}  # fmt: skip
"""What the code of a document speaks of: it is run with these names, in a folder of its own."""

ELSEWHERE = {
    "README.md": "test_readme.py",
    "docs/errors.md": "test_readme.py",
    "docs/te_schedules.md": "test_documents.py",
    "docs/operators.md": "tensorir/test_operators_page.py",
    "docs/primitives.md": "schedule/test_reference_page.py",
}
"""Which test runs, or writes, the code of the others."""


def test_the_code_of_every_document_is_run_by_a_test():
    with_code = {str(path) for path in DOCUMENTS if blocks(path, "python")}
    assert with_code == PREPARED.keys() | ELSEWHERE.keys()
    for document, test in ELSEWHERE.items():
        text = (ROOT / "tests" / test).read_text(encoding="utf-8")
        assert Path(document).name in text


@pytest.mark.parametrize("document", PREPARED)
def test_the_code_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = PREPARED[document]()
    for code in blocks(document, "python"):
        exec(compile(code, document, "exec"), names)


def commands(text: str) -> list[str]:
    """What follows `tensorir` in the lines of blocks, and in the text, where it has arguments."""
    inline = re.findall(r"`tensorir\s+([a-z][^`]*)`", BLOCK.sub("", text))
    lines = re.findall(r"^tensorir ([a-z].*)$", text, re.MULTILINE)
    return [*inline, *(re.split(r"\s[#>]", line)[0] for line in lines)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_commands_are_understood(document, capsys):
    """Those that are named without a program, as in "`tensorir tune --here`", get one."""
    parser = make_parser()
    for command in commands((ROOT / document).read_text(encoding="utf-8")):
        words = shlex.split(command)
        if words[0] in DELEGATED:
            continue
        takes = [words, [*words, "matmul"], [*words, "VALUE", "matmul"]]
        assert any(_parses(parser, each) for each in takes), (command, capsys.readouterr().err)


def _parses(parser: Any, words: list[str]) -> bool:
    try:
        parser.parse_args(words)
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_what_is_named_is_there(document):
    """Targets of make, files, links, modules and their functions."""
    text = (ROOT / document).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wrong = [
        target
        for target in re.findall(r"(?:`|^)make\s+([a-z][\w-]*)", text, re.MULTILINE)
        if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ]
    wrong += [
        link
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if not link.startswith("http") and not (ROOT / document.parent / link).exists()
    ]
    packages = r"(?:tensorir|schedule|backends|autotune|benchmarks)"
    for name in re.findall(rf"`({packages}(?:\.\w+)+)[(`]", text):
        if not name.endswith((".py", ".md")) and not _is_there(name):
            wrong.append(name)
    files = re.findall(rf"`({packages}/[\w./]*\w\.(?:py|md|h|cuh|cpp|ipynb))`", text)
    wrong += [f for f in files if not (ROOT / f).exists() and Path(f).name != "x.py"]
    assert not wrong


def _is_there(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_what_explain_prints_is_what_the_page_shows(capsys):
    from backends.cuda.nvrtc import why_not

    if missing := why_not():
        pytest.skip(missing)
    page = (ROOT / "docs" / "gpu_counts.md").read_text(encoding="utf-8")
    line = re.search(r"^`tensorir (explain [^`]*)` prints$", page, re.MULTILINE)
    assert line
    assert main(shlex.split(line[1])) == 0
    assert capsys.readouterr().out in blocks("docs/gpu_counts.md", "")


def test_requests_that_cannot_be_met_are_told_as_documented():
    (code,), (message,) = (blocks("docs/te_schedules.md", kind) for kind in ("python", "text"))
    with pytest.raises(TensorIRError) as caught:
        exec(compile(code, "softmax.py", "exec"), {})
    assert str(caught.value) == message.rstrip("\n")
