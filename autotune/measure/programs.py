"""What can be measured, and how a worker is told of it."""

from __future__ import annotations

from typing import Any, Protocol

from autotune.measure.design import Design
from tensorir import PrimFunc


class HasFunc(Protocol):
    """A schedule, or anything else that holds the program to run."""

    @property
    def func(self) -> PrimFunc: ...


Program = PrimFunc | HasFunc | Design | str
"""What can be measured: a program, its holder, or its printed text."""


def rounds_otherwise(program: Program) -> bool:
    """Whether a program may compute the definition by other expressions, or is not known not to."""
    return getattr(program, "numerics", "algebraic") not in ("bitwise", "reassociated")


def build_request(program: Program) -> dict[str, Any]:
    """The message by which a worker builds a program."""
    request = program.request if isinstance(program, Design) else None
    return request or text_request(program)


def text_request(program: Program) -> dict[str, Any]:
    return {"op": "build", "text": program_text(program)}


def program_text(program: Program) -> str:
    """The printed program, from which a worker makes the same program again."""
    if isinstance(program, str):
        return program
    if isinstance(program, Design):
        return program.text
    return str(program if isinstance(program, PrimFunc) else program.func)
