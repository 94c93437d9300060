"""docs/operators.md is what docs/generate_operators.py writes, and its example runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tensorir import ops, verify

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import generate_operators  # noqa: E402


def test_the_page_is_up_to_date(request):
    text = generate_operators.page()
    if request.config.getoption("--update-golden"):
        generate_operators.PAGE.write_text(text, encoding="utf-8")
    same = generate_operators.PAGE.read_text(encoding="utf-8") == text
    assert same, "docs/operators.md is stale: python docs/generate_operators.py"


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_every_operator_is_on_the_page(name):
    assert f"| `{name}(" in generate_operators.PAGE.read_text(encoding="utf-8")


def test_the_example_runs():
    code = re.search(r"```python\n(.*?)```", generate_operators.HEAD, re.DOTALL)
    names: dict[str, object] = {}
    exec(code.group(1), names)
    verify(names["func"])


def test_every_family_that_is_listed_exists():
    folder = Path(ops.__file__).parent
    assert [f for f in generate_operators.FAMILIES if not (folder / f"{f}.py").exists()] == []
