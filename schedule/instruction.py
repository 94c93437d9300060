"""Instruction: one call of a primitive, as names and literals only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Instruction:
    """One call of a primitive: its name, its arguments by name, and the names it returned."""

    name: str
    args: dict[str, Any]
    outputs: Any = None

    def __str__(self) -> str:
        call = f"{self.name}({format_args(self.args)})"
        names = output_names(self.outputs)
        return f"{call} -> {', '.join(names)}" if names else call

    def as_json(self) -> list[Any]:
        return [self.name, self.args, self.outputs]


VARIADIC = "loops"
"""The name of the parameter, of any primitive that has one, that takes any number of values."""


def format_args(args: dict[str, Any]) -> str:
    """Arguments as they would be typed: the first by position, the others by name."""
    if isinstance(args.get(VARIADIC), (list, tuple)):
        return ", ".join(repr(_plain(value)) for value in args[VARIADIC])
    items = [*args.items()]
    head = [repr(_plain(value)) for _, value in items[:1]]
    return ", ".join(head + [f"{key}={_plain(value)!r}" for key, value in items[1:]])


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def output_names(outputs: Any) -> list[str]:
    """The names, or other literals, that a primitive returned, as text."""
    if outputs is None:
        return []
    if not isinstance(outputs, (list, tuple)):
        return [str(outputs)]
    return [str(name) for name in outputs]
