"""docs/primitives.md is what docs/generate_primitives.py writes, and shows every primitive."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from schedule import REGISTRY

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import generate_primitives  # noqa: E402


def test_the_page_is_up_to_date(request):
    text = generate_primitives.page()
    if request.config.getoption("--update-golden"):
        generate_primitives.PAGE.write_text(text, encoding="utf-8")
    same = generate_primitives.PAGE.read_text(encoding="utf-8") == text
    assert same, "docs/primitives.md is stale: python docs/generate_primitives.py"


def test_every_example_is_of_a_primitive():
    assert set(generate_primitives.examples()) <= set(REGISTRY)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_docstring_is_understood(name):
    about, rewrite, requires = generate_primitives.split_docstring(inspect.getdoc(REGISTRY[name]))
    assert about and rewrite and requires.lstrip().startswith("- "), name
