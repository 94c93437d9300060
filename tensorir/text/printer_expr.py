"""Printing expressions as Python text with the fewest parentheses.

Constants carry their type only where it is not the obvious one: `3` is int64, `3.0` float32,
`True` bool; all others are written as in `i32(3)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Not, Select, Var
from tensorir.numbers.intrin import MATH
from tensorir.scalars import Scalar
from tensorir.vector_expr import Broadcast, Ramp, Shuffle

PRECEDENCE = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("<", "<=", "==", "!="), 4),
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    **dict.fromkeys(("*", "/", "//", "%"), 10),
}
"""How tightly an operator binds, as in Python; `not` is 3 and calls, names and numbers are 12."""

NOT = 3
ATOM = 12


def format_expr(e: Expr) -> str:
    """`e` as Python text with the fewest parentheses."""
    return _format(e)[0]


def short_dtype(dtype: str) -> str:
    """The printed name of a type: "f32x16" for "float32x16"."""
    base = dt.element(dtype)
    return dt.SHORT[base] + dtype[len(base) :]


def _format(e: Expr) -> tuple[str, int]:
    rule = _EXPRESSIONS.get(type(e))
    if rule is None:
        return e.describe(), ATOM  # type: ignore[attr-defined]  # te.Reduce and other te leaves
    return rule(e)


def format_exprs(parts: tuple[Expr, ...]) -> str:
    """The expressions, separated by commas."""
    return ", ".join([_format(part)[0] for part in parts])


def _operand(e: Expr, least: int) -> str:
    text, precedence = _format(e)
    return text if precedence >= least else f"({text})"


def _number(value: int | float | bool, dtype: str) -> str:
    if not dt.is_float(dtype):
        return repr(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return str(np.float32(value)) if dt.element(dtype) == "float32" else repr(value)


def _explicit(e: Const) -> str:
    return f"{short_dtype(e.dtype)}({_number(e.value, e.dtype)})"


def _const(e: Const) -> tuple[str, int]:
    bare = e.dtype in (dt.INDEX, "float32", "bool")
    return (_number(e.value, e.dtype) if bare else _explicit(e)), ATOM


def _binary(e: BinOp) -> tuple[str, int]:
    if e.op in ("min", "max"):
        return f"{e.op}({format_exprs((e.a, e.b))})", ATOM
    level = PRECEDENCE[e.op]
    # Python chains comparisons, so a comparison inside another one needs its parentheses.
    left = _operand(e.a, level + 1 if level == PRECEDENCE["<"] else level)
    return f"{left} {e.op} {_operand(e.b, level + 1)}", level


def _cast(e: Cast) -> tuple[str, int]:
    # i32(3) is a constant, so the cast of a constant shows the type of what it converts.
    inner = _explicit(e.a) if isinstance(e.a, Const) else _format(e.a)[0]
    return f"{short_dtype(e.dtype)}({inner})", ATOM


def _load(e: Load) -> tuple[str, int]:
    return f"{e.buffer.name}[{format_exprs(e.indices) or '()'}]", ATOM


def call_dtype(name: str, args: tuple[Expr, ...]) -> str | None:
    """The type of the result of a known math function; None for an unknown one."""
    row = MATH.get(name)
    if row is None or len(args) != row.arity:
        return None
    return row.result_of(args[0].dtype)


def _call(e: Call) -> tuple[str, int]:
    parts = [_format(arg)[0] for arg in e.args]
    if call_dtype(e.name, e.args) != e.dtype:
        parts.append(f'dtype="{e.dtype}"')
    return f"{e.name}({', '.join(parts)})", ATOM


def _lanes(e: Shuffle) -> str:
    return ", ".join(map(str, e.indices))


_EXPRESSIONS: dict[type, Callable[[Any], tuple[str, int]]] = {
    Const: _const,
    Var: lambda e: (e.name, ATOM),
    BinOp: _binary,
    Not: lambda e: (f"not {_operand(e.a, NOT)}", NOT),
    Cast: _cast,
    Select: lambda e: (f"select({format_exprs((e.cond, e.a, e.b))})", ATOM),
    Load: _load,
    Call: _call,
    Ramp: lambda e: (f"ramp({format_exprs((e.base, e.stride))}, {e.lanes})", ATOM),
    Broadcast: lambda e: (f"broadcast({_format(e.a)[0]}, {e.lanes})", ATOM),
    Shuffle: lambda e: (f"shuffle({format_exprs((e.a, e.b))}, {_lanes(e)})", ATOM),
}


def format_scalar_type(scalar: Scalar) -> str:
    """The type of a scalar and the least value that it may have: `i64 >= 1`."""
    kind = short_dtype(scalar.var.dtype)
    return kind if scalar.least is None else f"{kind} >= {scalar.least}"


def format_buffer_type(buffer: Buffer) -> str:
    """The type and shape of a buffer, without its scope: `f32[16, n]`."""
    return f"{short_dtype(buffer.dtype)}[{format_exprs(buffer.shape) or '()'}]"
