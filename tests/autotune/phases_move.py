"""The move of `tutorials/extending/add_a_move.ipynb`, from its cells."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from schedule.library import Move, find_again

NOTEBOOK = Path(__file__).parents[2] / "tutorials" / "extending" / "add_a_move.ipynb"
PARTS = ("def steps(", "def whole(", "def by_phases(", "def copying(", "phases = ")

_cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
_sources = ["".join(cell["source"]) for cell in _cells]
_names: dict[str, Any] = {"prod": prod, "Move": Move, "find_again": find_again}
for _part in PARTS:
    (_source,) = (source for source in _sources if source.startswith(_part))
    exec(_source, _names)

by_phases, phases = _names["by_phases"], _names["phases"]
