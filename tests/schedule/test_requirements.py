"""Every `requires:` line of every primitive has a refusal that a test asks for.

requirements.txt lists the lines as the docstrings have them, and below each what errors say that
come of it. A test of this primitive has to expect these words, as `refused(sch.split, ...,
match="no factors")` does.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedule import REGISTRY

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "docs"))
from generate_primitives import split_docstring  # noqa: E402

Rows = dict[str, dict[str, list[str]]]


def table() -> Rows:
    """For each primitive its lines, and for each of these the words of errors."""
    found: Rows = {}
    lines: dict[str, list[str]] = {}
    for text in (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines():
        words = text.strip()
        if words and words == text:
            lines = found[words] = {}
        elif words.startswith("- "):
            lines[words[2:]] = []
        elif words.startswith(": "):
            lines[list(lines)[-1]].append(words[2:])
        elif words:
            last = list(lines)[-1]
            lines[f"{last} {words}"] = lines.pop(last)
    return found


def required(name: str) -> list[str]:
    """The `requires:` lines of a primitive, each as one line."""
    items = "\n" + split_docstring(inspect.getdoc(REGISTRY[name]) or "")[2]
    return [" ".join(item.split()) for item in items.split("\n- ") if item.strip()]


@functools.cache
def expected_words() -> dict[str, set[str]]:
    """What tests expect errors to say, by primitive: the `match` of refusals in their files."""
    found: dict[str, set[str]] = defaultdict(set)
    files = [*HERE.glob("test_*.py"), *HERE.parent.glob("fuzz/test_*.py")]
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for name, text in refusals(function):
                    found[name].add(text)
    return found


def refusals(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """(primitive, words) of each refusal in a test; both may come from its parameters."""
    given = strings(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refused" and node.args:
            match = next((k.value for k in node.keywords if k.arg == "match"), None)
            texts = [] if match is None else [*strings(match)]
            names = calls(node.args[0]) or given + calls(function)
        elif isinstance(node, ast.With) and "raises(ScheduleError" in ast.unparse(node.items[0]):
            texts = [*strings(node.items[0])]
            names = calls(node.body[0])
        else:
            continue
        yield from ((name, text) for name in names for text in texts or given)


def strings(node: ast.AST) -> list[str]:
    found = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return [value for value in found if isinstance(value, str)]


def calls(node: ast.AST) -> list[str]:
    """The primitives named as methods."""
    found = [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)]
    return [name for name in found if name in REGISTRY]


def test_the_table_has_every_line():
    wanted = {name: required(name) for name in sorted(REGISTRY)}
    assert {name: list(lines) for name, lines in table().items()} == wanted


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_line_has_a_refusal(name):
    expected = expected_words()[name]
    lines = table()[name]
    assert all(lines.values()), [line for line, words in lines.items() if not words]
    missing = [
        f"no refused {name} is tested to say {text!r}, which comes of: {line}"
        for line, words in lines.items()
        for text in words
        if not any(text in match for match in expected)
    ]
    assert not missing
