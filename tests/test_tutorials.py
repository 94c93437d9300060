"""The notebooks run, their kept outputs are theirs, and their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

nbformat = pytest.importorskip("nbformat")
if find_spec("nbclient") is None:  # which takes long to import
    pytest.skip("nbclient is not installed", allow_module_level=True)

from tutorials.run import METADATA, clean, execute, notebooks, stderr_of  # noqa: E402

if TYPE_CHECKING:
    from notebook_forks import Forks

ROOT = Path(__file__).parent.parent
FIRST = ROOT / "tutorials" / "01_write_and_tune_an_operator.ipynb"
TEXTS = [*notebooks(), *sorted((ROOT / "tutorials").rglob("*.md"))]

MAX_CELL_LINES = 15
MAX_IMAGE_BYTES = 100_000
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
"""Targets of Markdown links without a scheme: files."""

PRIVATE_PATH = re.compile(r"(?<![\w.])/(home|root|work|tmp|var|Users|opt)/|\.venv|site-packages")

SHORTER = {
    "01_write_and_tune_an_operator": {
        "trials=24": "trials=5", "== 24": "== 5", "rounds=5": "rounds=2", "rounds=7": "rounds=3",
        "30, min_ms": "5, min_ms",
        "rounds[0].min > 3 * min(timing.min for timing in rounds)": "len(rounds) == len(kernels)",
        "seconds < result.seconds / 2": "seconds > 0",
        "timings[0].min > 3 * timings[2].min": "len(timings) == 4",
    },
    "02_schedule_a_matmul_by_hand": {
        "repeats=15": "repeats=5", "rounds=15": "rounds=5",
        'best["6 rows"] < best["registers"] * 1.2 and best["registers"] < best["three loops"]':
            "len(best) == len(kernels)",
    },
    "04_how_the_search_works": {
        'folder.glob("*.jsonl.gz"))': 'folder.glob("*.jsonl.gz"))[:5]',
        "TRIALS = 5, 24": "TRIALS = 1, 10", "(8, 16, 24)": "(8, 10)", "trials=48": "trials=10",
        "RACES = 100": "RACES = 20", '"grouped", "mlp")': '"grouped")',
    },
    "08_from_a_naive_convolution_to_winograd": {
        "C, K, H, W = 64, 64, 56, 56": "C, K, H, W = 16, 64, 28, 28",
        "repeats=25, limit_s=2": "repeats=5, limit_s=0.3", "(200, 64": "(20, 64",
        "((2, 2), (4, 2), (2, 4), (4, 4))": "((4, 2),)",
        '(("F(2x2)", two), ("F(4x4)", four)):\n    step': '(("F(4x4)", four),):\n    step',
        '> 5 * fastest["rows"] > 5 * fastest["F(4x4), constants"]': "> 0",
        "< 1.1 * peak": "> 0",
    },
    "09_tune_your_own_schedule": {"trials=16": "trials=3", "== 16": "== 3"},
    "add_a_cost_model": {
        'folder.glob("*.jsonl.gz"))': 'folder.glob("*.jsonl.gz"))[:3]',
        "NAMES = 4, 24": "NAMES = 1, 16", "(8, 16, 32, 64, 128), 3": "(8, 32), 1",
        "trials=10": "trials=2",
        '"grouped", "mlp")': '"grouped")',
    },
    "add_a_move": {"trials=6": "trials=2"},
    "add_a_sketch_rule": {"trials=6": "trials=2"},
    "add_an_operator": {"trials=8": "trials=3", "(1, 64, 28, 28)": "(1, 16, 14, 14)"},
}  # fmt: skip
"""Trials, rounds and sizes that a test can do without, and what is asserted of times, which nothing
may disturb, by the text of the notebook."""

every_notebook = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell put out: names of streams, types of displayed data."""
    return {o.get("name", o.output_type) for o in cell.outputs}


def texts_of(cell):
    for output in cell.outputs:
        yield output.get("text", "")
        yield from (v for k, v in output.get("data", {}).items() if k.startswith("text/"))


def prose(path):
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


def test_there_are_notebooks():
    assert FIRST in notebooks()


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    from notebook_forks import Forks

    forks = Forks()
    yield forks
    forks.close()


@pytest.mark.slow
@every_notebook
def test_runs(path, tmp_path, few_builds_code, forks):
    """The first one in Jupyter, as readers run it."""
    kept = read(path)
    missing = SHORTER.get(path.stem, {}).copy()

    def shorter(source):
        if "tune(" in source:
            source = few_builds_code + source
        for long, short in SHORTER.get(path.stem, {}).items():
            if long in source:
                source = source.replace(long, short)
                missing.pop(long, None)
        return source

    run = execute if path == FIRST else forks.execute
    found = run(path, tmp_path, shorter)
    assert not missing, "the notebook has changed, and so must SHORTER"
    assert [kinds(c) for c in code_cells(found)] == [kinds(c) for c in code_cells(kept)], (
        "the kept outputs are of another version: run python tutorials/run.py"
    )
    assert list(tmp_path.iterdir()) == [], "the notebook left files behind"


@every_notebook
def test_kept_outputs(path):
    notebook = read(path)
    cells = code_cells(notebook)
    assert [c.execution_count for c in cells] == [*range(1, len(cells) + 1)]
    assert stderr_of(notebook) == ""
    for cell in cells:
        assert all(o.output_type != "error" for o in cell.outputs)
        for text in texts_of(cell):
            assert not PRIVATE_PATH.search(text), text
            assert str(ROOT) not in text and str(Path.home()) not in text, text
        for output in cell.outputs:
            assert len(output.get("data", {}).get("image/png", "")) < MAX_IMAGE_BYTES


@every_notebook
def test_metadata_tell_nothing_of_the_machine(path):
    notebook = read(path)
    assert notebook.metadata == METADATA
    assert notebook == clean(read(path))


@every_notebook
def test_cells_are_short(path):
    for cell in code_cells(read(path)):
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_CELL_LINES, cell.source


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    links = LINK.findall(prose(path))
    assert links
    for link in links:
        assert (path.parent / link).exists(), f"{path.name} links to {link}, which does not exist"


def test_the_first_tutorial_walks_the_path_of_a_kernel():
    """docs/architecture.md lists the files; the tutorial links them in the same order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| \d+ \| `([^`]+)` \|", page, re.MULTILINE)
    assert len(files) == 8
    for file in files:
        assert (ROOT / file).is_file(), f"docs/architecture.md names {file}, which does not exist"
    links = [link.removeprefix("../") for link in LINK.findall(prose(FIRST))]
    assert [link for link in links if link in files] == files


def test_all_notebooks_are_in_the_readme():
    readme = ROOT / "tutorials" / "README.md"
    links = {(readme.parent / link).resolve() for link in LINK.findall(prose(readme))}
    assert {path.resolve() for path in notebooks()} <= links
