"""Refused requests, in the words of who made them: stages and their axes, no names of loops that
primitives made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedule.errors import Hint, ScheduleError, hint_text


class RequestError(ScheduleError):
    """A request that cannot be met, beside the others that were made.

    `call` is the request as typed, `request` the request itself, to be taken back with
    `s.withdraw(error.request)`; `cause` is what the primitive said that was to meet it, None where
    the call itself was refused. `stages` lists what is asked of each stage.
    """

    def __init__(
        self,
        call: str,
        where: str,
        reason: str,
        hint: Hint = None,
        *,
        request: Any = None,
        cause: Exception | None = None,
        place: str = "",
        remedy: str = "",
        stages: str = "",
    ) -> None:
        super().__init__(call, where, reason, hint, None, None)
        self.request, self.cause = request, cause
        self.place, self.remedy, self.stages = place, remedy, stages

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.call, self.where, self.reason, self.hint)
        return _restored, (*parts, self.place, self.remedy, self.stages)

    def __str__(self) -> str:
        lines = [f"{self.call}: {self.reason}"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.place:
            lines.append(f"  asked for in {self.place}; {self.remedy}")
        if self.stages:
            lines.append(self.stages)
        return "\n".join(lines)


def _restored(
    call: str, where: str, reason: str, hint: str | None, place: str, remedy: str, stages: str
) -> RequestError:
    return RequestError(call, where, reason, hint, place=place, remedy=remedy, stages=stages)


@dataclass(frozen=True)
class Words:
    """What loops, buffers and blocks of the program are for the user."""

    loops: Mapping[str, str]
    buffers: Mapping[str, str]
    blocks: Mapping[str, str]

    def of(self, text: Hint) -> str:
        """`text` in these words.

        A name after "block" or "reader" is that of a block, and otherwise what is of this name.
        Quoted names are names; others, as in lists of loops, between commas, or if they could be no
        English word.
        """
        parts = AFTER_BLOCK.split(hint_text(text) or "")
        for n, part in enumerate(parts):
            found = NAMES if n % 2 == 0 else QUOTED
            tables = [self.loops, self.buffers, self.blocks] if n % 2 == 0 else [self.blocks]
            parts[n] = found.sub(lambda match, order=tables: _said(match, order), part)
        return "".join(parts)


AFTER_BLOCK = re.compile(r"(\b(?:blocks?|readers?|follow) '\w+'(?:(?:, | and )'\w+')*)")
QUOTED = re.compile(r"'(\w+)'")
LISTED = r"(?<=[:,] )(\w+)(?=[,;]|$)"
NAMES = re.compile(rf"'(\w+)'|\b((?=\w*[_\d])[A-Za-z_]\w*)\b|{LISTED}")


def _said(found: re.Match[str], tables: Sequence[Mapping[str, str]]) -> str:
    """`'i_0'` as `'i.outer' of s[C]`."""
    name = next(group for group in found.groups() if group)
    said = next((table[name] for table in tables if name in table), None)
    if said is None:
        return found[0]
    own, of, stage = said.partition(" of ")
    return f"'{own}'{of}{stage}" if found[0].startswith("'") else said
