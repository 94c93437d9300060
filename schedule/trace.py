"""Trace: what was done to a function, as plain data.

An instruction holds names and literals only, so a trace is one line of JSON, and its Python text
can be pasted into a program. Both replay to the identical program.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedule.instruction import Instruction, format_args, output_names
from schedule.primitive import bind_arguments, parameter_names
from tensorir import TensorIRError


@dataclass(frozen=True)
class Trace:
    """A sequence of instructions; append-only, shared between copies of a schedule."""

    instructions: tuple[Instruction, ...] = ()

    def __len__(self) -> int:
        return len(self.instructions)

    def append(self, instruction: Instruction) -> "Trace":
        return Trace((*self.instructions, instruction))

    def as_json(self) -> list[Any]:
        """A JSON-able list; `Trace.from_json` reads it back."""
        return json.loads(self.dumps())  # type: ignore[no-any-return]

    def dumps(self) -> str:
        return json.dumps([i.as_json() for i in self.instructions], separators=(",", ":"))

    @staticmethod
    def from_json(data: str | Sequence[Any]) -> "Trace":
        """Read the list (or its text) that `as_json` made; TensorIRError if it is not one."""
        try:
            rows: Sequence[Any] = json.loads(data) if isinstance(data, str) else data
            steps = [(name, _in_order(name, dict(args)), out) for name, args, out in rows]
            return Trace(tuple(Instruction(*step) for step in steps))
        except (ValueError, TypeError) as error:
            raise TensorIRError(f"not a trace: {error}") from error

    def as_python(self) -> str:
        """Python statements on a schedule called `sch`."""
        lines = []
        for step in self.instructions:
            call = f"sch.{step.name}({format_args(step.args)})"
            names = output_names(step.outputs)
            lines.append(call + (f"  # -> {', '.join(names)}" if names else ""))
        return "\n".join(lines)

    @staticmethod
    def from_python(text: str) -> "Trace":
        """Read the statements that `as_python` made; nothing is executed."""
        try:
            body = ast.parse(text).body
        except SyntaxError as error:
            raise TensorIRError(f"not a trace: line {error.lineno}: {error.msg}") from error
        return Trace(tuple(_read_call(node, text) for node in body))


def _in_order(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Arguments in the order of the primitive's parameters; JSON may have sorted them."""
    places = {key: place for place, key in enumerate(parameter_names(name))}
    return {key: args[key] for key in sorted(args, key=lambda key: places.get(key, len(places)))}


def _read_call(node: ast.stmt, text: str) -> Instruction:
    call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        line = text.splitlines()[node.lineno - 1]
        raise TensorIRError(f"line {node.lineno} of the trace is no call on a schedule: {line!r}")
    try:
        positional = [ast.literal_eval(a) for a in call.args]
        keywords = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except ValueError as error:
        raise TensorIRError(
            f"line {node.lineno} of the trace has an argument that is not a literal"
        ) from error
    return Instruction(call.func.attr, bind_arguments(call.func.attr, positional, keywords))
