"""Integers: instructions for what no memory gives, indices and conditions, as compilers have them.

A text repeats them wherever they are meant. Compilers compute each once, where what it speaks of is
known, outside of the loops that do not change it; in loops that they write out the variable is a
number, and what is added to something else is part of the instruction that uses the sum.
"""

from __future__ import annotations

from tensorir import (
    WRITTEN_OUT,
    BinOp,
    Call,
    Expr,
    For,
    ForKind,
    Let,
    Select,
    Var,
    children,
    dtype,
    variables,
)

Path = tuple[For | Expr | Let, ...]
"""What an expression stands in: serial loops, conditions and names."""


class Integers:
    """Those of one kernel, and which of them were met."""

    def __init__(self) -> None:
        self.met = set[tuple[Expr, Path]]()
        self.given = dict[Path, dict[Var, int]]()

    def has(self, e: Expr) -> bool:
        """Whether an expression is an integer or a condition that depends on no memory."""
        return not e.has_loads and not dtype.is_float(dtype.element(e.dtype))

    def instructions(self, e: Expr, path: Path) -> list[tuple[Expr, Path]]:
        """Operations that an expression needs beside what was met before, each with where it is
        done: in what gives the last of its variables a value."""
        given = self.given.get(path)
        if given is None:
            given = {p.var: n for n, p in enumerate(path, 1) if isinstance(p, (For, Let))}
            self.given[path] = given
        numbers = {p.var for p in path if isinstance(p, For) and _is_written(p)}
        found, rest = list[tuple[Expr, Path]](), [e]
        while rest:
            part = rest.pop()
            used = variables(part)
            where = path[: max((given.get(var, 0) for var in used), default=0)]
            if used <= numbers or (part, where) in self.met:
                continue
            self.met.add((part, where))
            if isinstance(part, (BinOp, Call, Select)) and not _is_part(part, numbers):
                found.append((part, where))
            rest += children(part)
        return found


def _is_written(loop: For) -> bool:
    """Whether all iterations of a loop are written out."""
    return loop.kind is ForKind.UNROLLED and WRITTEN_OUT not in loop.annotations


def _is_part(e: Expr, numbers: set[Var]) -> bool:
    """Whether an operation is done by the instruction that uses it or its operands: sums with a
    number have room in addresses and comparisons, and comparisons combine conditions."""
    if not isinstance(e, BinOp):
        return False
    if e.op in ("and", "or"):
        return True
    return e.op in ("+", "-") and any(variables(part) <= numbers for part in (e.a, e.b))
