"""Why a schedule primitive refused. Messages are rendered only when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

from tensorir import TensorIRError, format_func

if TYPE_CHECKING:
    from schedule.state import State
    from schedule.trace import Trace


Hint = Union[str, Callable[[], Union[str, None]], None]
"""A text, or a function that makes it where that takes time, called if somebody reads it."""


class Illegal(TensorIRError):
    """Raised by `require` inside a primitive; the Schedule turns it into a ScheduleError. What only
    looks for something in a schedule, as `library.find_contraction` does, lets it through.

    `reason` is one line; `detail` is what takes more of them, such as a printed program.
    """

    def __init__(self, where: str, reason: str, hint: Hint = None, detail: Hint = None) -> None:
        super().__init__(where, reason, hint, detail)
        self.where = where if isinstance(where, str) else repr(where)  # what was given as a name
        self.reason, self.hint, self.detail = reason, hint, detail

    def __reduce__(self) -> tuple[Any, ...]:
        return Illegal, (self.where, self.reason, hint_text(self.hint), hint_text(self.detail))

    def __str__(self) -> str:
        hint = hint_text(self.hint)
        return f"{self.reason}; {hint}" if hint else self.reason


def hint_text(hint: Hint) -> str | None:
    return hint() if callable(hint) else hint


def require(condition: bool, where: str, reason: str, hint: Hint = None) -> None:
    """Refuse unless `condition`: `where` is the loop or block at fault, `reason` what is wrong."""
    if not condition:
        raise Illegal(where, reason, hint)


class Refusal(TensorIRError):
    """What is asked for cannot be done to this program, and whoever tried goes on without it. Other
    errors, as of a program that does not verify, are mistakes, which nobody may take for that.
    `reason` is one line."""

    def __init__(self, reason: str, *more: str) -> None:
        super().__init__(reason, *more)
        self.reason = reason

    @property
    def headline(self) -> str:
        """One line that says what was refused."""
        return self.reason


class ScheduleError(Refusal):
    """A primitive was refused; the schedule is as it was before the call.

    `call`, `where`, `reason` and `hint` are short strings; `str(error)` adds the `detail` of the
    refusal, the printed program with the offending loop or block marked, and the steps that led
    there.
    """

    def __init__(
        self,
        call: str,
        where: str,
        reason: str,
        hint: Hint,
        state: "State | None",
        trace: "Trace | None",
        detail: Hint = None,
    ) -> None:
        super().__init__(call, where, reason)
        self.call, self.where, self.reason, self._hint = call, where, reason, hint
        self.state, self.trace, self._detail = state, trace, detail

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.call, self.where, self.reason, self.hint, self.state, self.trace)
        return ScheduleError, (*parts, self.detail)

    @property
    def hint(self) -> str | None:
        """What to do instead, where there is something to say."""
        self._hint = hint_text(self._hint)
        return self._hint

    @property
    def detail(self) -> str | None:
        """What tells more than the reason and takes several lines, where there is such."""
        self._detail = hint_text(self._detail)
        return self._detail

    @property
    def headline(self) -> str:
        """One line: the call, the reason and the hint."""
        text = f"{self.call}: {self.reason}"
        return f"{text}; {self.hint}" if self.hint else text

    def __str__(self) -> str:
        lines = [f"{self.call}: {self.reason}"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.detail:
            lines.append(self.detail)
        if self.state is not None:
            lines.append(format_func(self.state.func, mark=self.where))
        if self.trace is not None and self.trace.instructions:
            lines.append("  after: " + "; ".join(map(str, self.trace.instructions)))
        return "\n".join(lines)
