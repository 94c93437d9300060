"""The code in README.md and docs/errors.md runs, and the messages there are the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorir import TensorIRError

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fenced(name: str) -> list[tuple[str, str]]:
    """The (language, text) of the blocks of a Markdown file."""
    return BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))


def test_the_readme_runs(tmp_path, monkeypatch, capsys, few_builds):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(text for kind, text in fenced("README.md") if kind == "python")
    assert "trials=64" in code
    assert code.count("1024") >= 6
    names: dict[str, object] = {}
    exec(code.replace("trials=64", "trials=2").replace("1024", "64"), names)
    assert names["c"].shape == (64, 64)  # type: ignore[attr-defined]
    assert "def matmul" in capsys.readouterr().out
    assert (tmp_path / "matmul" / "matmul.h").exists()
    assert (tmp_path / "tuning_logs" / "tuning.db").exists()


def test_the_readme_names_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)+|(?:\w+/)*\w+\.(?:md|py))`", text)
    assert {"tensorir/", "docs/errors.md"} <= set(named)
    assert not [name for name in named if not (ROOT / name).exists()]


DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_documents_name_are_where_they_say(document):
    """Each line, or row of a table, names tests of the files that it names, or of any."""
    sources = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py")}
    wrong = []
    for line in document.read_text(encoding="utf-8").splitlines():
        files = re.findall(r"`((?:tests/)?(?:\w+/)*test_\w+\.py)(?:::\w+)?`", line)
        places = [p for p in sources for f in files if f"/{p.relative_to(ROOT)}".endswith(f"/{f}")]
        wrong += [f for f in files if not any(str(p).endswith(f) for p in places)]
        texts = [sources[path] for path in places or sources]
        for name in re.findall(r"`(test_\w+)(?:\[[^`]*\])?`", line):
            if not any(f"def {name}(" in text for text in texts):
                wrong.append(name)
    assert not wrong


def test_what_is_promised_is_promised_once():
    pages = [ROOT / "docs" / name for name in ("promises.md", "findings.md")]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in lines if row.startswith("| ") and "`" in row]
    assert len(rows) > 200 and len(rows) == len({*rows})


def test_the_readme_counts_the_primitives():
    from schedule import REGISTRY

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"(\d+) schedule primitives", text) == [str(len(REGISTRY))]


def test_the_readme_names_commands_that_exist():
    from autotune.cli.entry import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^tensorir (\w+)", text, re.MULTILINE)) <= {*COMMANDS}


def test_the_errors_are_as_documented():
    names: dict[str, object] = {}
    blocks = fenced("docs/errors.md")
    assert len(blocks) >= 6
    for (kind, code), (_, message) in zip(blocks[::2], blocks[1::2], strict=True):
        assert kind == "python"
        with pytest.raises(TensorIRError) as caught:
            exec(code, names)
        shown = "\n".join(line.rstrip() for line in str(caught.value).splitlines())
        expected = message.rstrip("\n")
        assert shown == expected or shown.startswith(f"{expected}\n"), shown
