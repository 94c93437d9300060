"""What a design space holds, in words: its sketches, what each leaves open, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from autotune.choices import Categorical, Choice, ImperfectTile, PerfectTile

if TYPE_CHECKING:
    from autotune.space import Space

MOST_LISTED = 8
"""Options of a choice that are written out."""

EXACT = 1_000_000
"""Up to this many, candidates are counted exactly."""


@dataclass(frozen=True)
class Description:
    """A text that shows itself, in `print` and at a prompt."""

    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def describe(space: Space) -> Description:
    """Each sketch with its choices, the values of each, and the number of combinations."""
    sketches = list(space.sketches.values())
    lines = [f"{_plural(len(sketches), 'sketch', 'sketches')}, {candidates(space.size())}"]
    meanings: dict[str, str] = {}
    for sketch in sketches:
        lines += ["", f"{sketch.name}: {candidates(sketch.size())}"]
        lines += [f"  {line}" for line in (*sketch.notes(), *_rows(sketch.choices))]
        meanings.update(sketch.meanings())
    if meanings:
        lines += ["", "what is chosen:"]
        for what, text in meanings.items():
            lines += wrap(text, 100, initial_indent=f"  {what:14}", subsequent_indent=" " * 16)
    return Description("\n".join(lines))


def amount(count: int) -> str:
    """A number of candidates: exact where it is small, else its magnitude."""
    if count <= EXACT:
        return f"{count:,}"
    digit, _, magnitude = f"{count:.0e}".partition("e")
    return f"about {digit}e{int(magnitude)}"


def candidates(count: int) -> str:
    """So many candidates, in words."""
    return f"{amount(count)} {'candidate' if count == 1 else 'candidates'}"


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _rows(choices: tuple[Choice, ...]) -> Iterator[str]:
    return _columns([(choice.name, values_text(choice)) for choice in choices])


def _columns(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return (f"{name:{width}}  {text}" for name, text in rows)


def values_text(choice: Choice) -> str:
    """The values of a choice in a line, and how many there are."""
    count = _plural(choice.size(), "value", "values")
    if isinstance(choice, Categorical):
        shown = [_option(option) for option in choice.options[:MOST_LISTED]]
        return f"{' | '.join(shown)}{f' | ... ({count})' if choice.size() > MOST_LISTED else ''}"
    if isinstance(choice, ImperfectTile):
        assert choice.inner is not None
        inner = _range(choice.inner)
        middle = f"{choice.parts - 2} x {_range(choice.steps)}, " if choice.parts > 2 else ""
        return f"{middle}inner {inner} of {choice.extent}: {count}"
    if isinstance(choice, PerfectTile):
        return f"{choice.extent} as a product of {choice.parts} factors: {count}"
    return count


def _range(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _option(option: object) -> str:
    return " ".join(map(_option, option)) if isinstance(option, tuple) else str(option)

