"""What was asked of a schedule, as it was typed, where, and how it is taken back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).parent)


@dataclass(eq=False)
class Request:
    """One call: `text` is the call as typed, `place` the file and line of it.

    `revert` undoes what it recorded, if later requests are undone. It is None where no later
    request can rest on this one, so that it can be taken back alone.
    """

    text: str
    place: str
    revert: Callable[[], None] | None = None

    def __str__(self) -> str:
        return f"{self.text}  # {self.place}"


def caller() -> str:
    """The file and line of the call that came in from outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def call_text(receiver: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A call as it is typed, with stages and loops by their names."""
    shown = [shown_value(a) for a in args]
    shown += [f"{key}={shown_value(value)}" for key, value in kwargs.items()]
    return f"{receiver}.{name}({', '.join(shown)})"


def shown_value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(shown_value, value))}]"
    shown = getattr(value, "shown", None)
    if isinstance(shown, str):
        return shown
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else repr(value)
