"""What can be measured: programs, and candidates, which the worker that compiles them makes.

A worker knows the space of the search, so it makes a schedule from the decisions: this process
does not make it a second time, and the worker parses no text. Where no worker can, as without
workers that build, it is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from autotune.errors import MeasureError
from autotune.measure.scoring import scheduled_program
from autotune.space import Candidate, Space
from tensorir import PrimFunc

if TYPE_CHECKING:
    from schedule import Schedule


@dataclass(frozen=True)
class Made:
    """What a record has of a schedule: its steps, its class of numerics, its program."""

    trace: tuple[Any, ...]
    numerics: str
    program: str

    @classmethod
    def of(cls, source: Schedule | Design) -> Made:
        if isinstance(source, Design):
            return source.made
        return cls(tuple(source.trace.as_json()), source.numerics, scheduled_program(source))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Made:
        return cls(tuple(data["trace"]), data["numerics"], data["program"])


class Design:
    """One candidate of a space.

    program  what its schedule was found to make when it was proposed; "" where that is not known
    request  what a worker needs to make its schedule, beside the candidate; None where none can
    """

    def __init__(
        self,
        space: Space,
        candidate: Candidate,
        program: str = "",
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self.candidate, self._space, self._program = candidate, space, program
        self._request = request
        self._told: Made | None = None
        self._text: str | None = None

    @property
    def request(self) -> dict[str, Any] | None:
        """The message by which a worker builds it; None where no worker can."""
        if self._request is None:
            return None
        return {"op": "build", **self._request, "candidate": self.candidate.as_json()}

    def tell(self, answer: Mapping[str, Any]) -> None:
        """Take what a worker made of it. Raises MeasureError where that is another program than
        this process made."""
        made = Made.from_json(answer)
        if self._program and made.program != self._program:
            raise MeasureError(
                f"a worker makes another program of candidate {self.candidate.key} than this"
                " process: rules or primitives that depend on more than their arguments; mend them,"
                " or build here with MeasureSettings(build_jobs=1)"
            )
        self._told, self._text = made, answer["text"]

    @cached_property
    def schedule(self) -> Schedule:
        """Its schedule, made here."""
        return self._space.build(self.candidate)

    @property
    def func(self) -> PrimFunc:
        return self.schedule.func

    @property
    def text(self) -> str:
        """The printed program."""
        return str(self.func) if self._text is None else self._text

    @property
    def made(self) -> Made:
        return Made.of(self.schedule) if self._told is None else self._told

    @property
    def numerics(self) -> str:
        return self.schedule.numerics if self._told is None else self._told.numerics


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
