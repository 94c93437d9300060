"""Numbers among the arguments of a program: sizes that no array tells, strides, offsets.

In expressions they are variables of the index type, as sizes are that arrays tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Expr, Var
from tensorir.visit import walk_exprs

Argument = TypeVar("Argument")

SizeRanges = tuple[tuple[Var, Union[int, None]], ...]
"""Sizes with the least value that a call may give them; None where there is none."""

SCALAR_LIMITS = dt.int_limits("int32")
"""What a call may give. An index is int64: products of a number and an index do not wrap."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer that a call gives, such as the `factor` of an output of n // factor elements.

    var       what stands for it in expressions
    position  the place of the argument among all arguments of a call
    least     a call gives no less; None where any number will do
    """

    var: Var
    position: int
    least: int | None = None

    @property
    def name(self) -> str:
        return self.var.name

def whole_number(value: Any, where: str) -> int:
    """An integer of Python or NumPy; raises TensorIRError, which starts with `where`, for others.

    Truth values are none, nor are arrays of one element.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        kind = type(value).__name__
        is_array = getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u")
        remedy = "pass .item() of it" if is_array else "pass an int"
        raise TensorIRError(f"{where} is {value!r} of type {kind}, no integer; {remedy}")
    return int(value)


def check_limits(value: int, least: int | None, is_scalar: bool, where: str) -> None:
    """Raise TensorIRError, which starts with `where`, for a size that a call may not give."""
    if least is not None and value < least:
        why = ", as what divides something has to be" if least == 1 else ""
        raise TensorIRError(f"{where} is {value}, and has to be {least} or more{why}")
    low, high = SCALAR_LIMITS
    if is_scalar and not low <= value <= high:
        raise TensorIRError(
            f"{where} is {value}, and a number among the arguments is from {low} to {high}; "
            "pass larger ones in an array of one element"
        )


def in_call_order(
    params: Sequence[Argument], scalars: Sequence[Scalar]
) -> tuple[Argument | Scalar, ...]:
    """`params` with each scalar at its position."""
    merged: list[Argument | Scalar] = list(params)
    for scalar in sorted(scalars, key=lambda s: s.position):
        merged.insert(scalar.position, scalar)
    return tuple(merged)


def split_order(arguments: Iterable[Argument | Scalar]) -> tuple[Scalar, ...]:
    """The scalars among arguments in call order, each with the position that it has there."""
    return tuple(
        Scalar(each.var, position, each.least)
        for position, each in enumerate(arguments)
        if isinstance(each, Scalar)
    )


def divisors(e: Expr) -> Iterator[Var]:
    """The variables by which something in an integer expression is divided, also as a factor."""
    for node in walk_exprs(e) if e.variables else ():
        if isinstance(node, BinOp) and node.op in ("//", "%") and node.dtype == dt.INDEX:
            yield from _factors(node.b)


def _factors(e: Expr) -> Iterator[Var]:
    if isinstance(e, Var):
        yield e
    elif isinstance(e, BinOp) and e.op == "*":
        yield from _factors(e.a)
        yield from _factors(e.b)
