"""How tests tell what a call costs: counted, since what else the machine does changes no count."""

from __future__ import annotations

import sys
from collections.abc import Callable

PYTHON = ("call",)
"""Calls of functions that are written in Python."""


def calls(run: Callable[[], object], what: tuple[str, ...] = (*PYTHON, "c_call")) -> int:
    """The calls of Python functions, and of those of C that they call, that `run` makes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in what

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
