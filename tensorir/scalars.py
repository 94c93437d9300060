"""Numbers among the arguments of a program: sizes that no array tells, strides, factors, flags.

In expressions they are variables. Those of the index type are sizes, as sizes are that arrays
tell; those of any other type are values, which nothing but values is computed from.

`PrimFunc.params` are the arrays and `scalars` the numbers, each with its place among `arguments`.
Analyses ask `size_ranges` for all sizes, whoever tells them. No loop, shape or index depends on a
value, which the verifier asks, so every pass and primitive sees a free variable. From the call to
the kernel, and through every executable, a value is the word of its bits (`word_of`), after the
sizes; what a GPU launches is remembered by the sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar, Union

import numpy as np

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Expr, Var
from tensorir.numbers.narrow import narrowed
from tensorir.visit import walk_exprs

Argument = TypeVar("Argument")

SizeRanges = tuple[tuple[Var, Union[int, None]], ...]
"""Sizes with the least value that a call may give them; None where there is none."""

SCALAR_LIMITS = dt.int_limits("int32")
"""What a call may give for a size: products of a number and an index, both int64, do not wrap."""

Number = Union[int, float, bool]
"""A number as Python holds it: a bool for bool, an int for integers, a float for floats."""

Numbers = Mapping[str, Number]
"""Numbers by the names of symbolic sizes and of numbers among the arguments."""


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A number that a call gives, such as the `factor` of an output of n // factor elements, or
    the `alpha` by which elements are multiplied.

    var       what stands for it in expressions
    position  the place of the argument among all arguments of a call
    least     of a size: a call gives no less; None where any number will do
    """

    var: Var
    position: int
    least: int | None = None

    def __eq__(self, other: object) -> bool:
        # == of two variables would be an expression, which some pairs of types have not
        if not isinstance(other, Scalar) or self.var is not other.var:
            return False
        return (self.position, self.least) == (other.position, other.least)

    def __hash__(self) -> int:
        return hash((self.var, self.position, self.least))

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def dtype(self) -> str:
        return self.var.dtype

    @property
    def is_size(self) -> bool:
        """Whether shapes, loops and indices may depend on it; else it is a value like data."""
        return self.var.dtype == dt.INDEX


def number_of(value: Any, dtype: str, where: str) -> Number:
    """`value` as a number of `dtype`: of Python or NumPy, or an array of NumPy without dimensions.

    Floats are rounded to the nearest number of the type, ties to even; NaN and infinities stay.
    Raises TensorIRError, which starts with `where`, for anything else: for a float where an integer
    is wanted and for a truth value where a number is, also if they are equal, for an integer that
    is beyond the type, and for a finite number that would become infinite.
    """
    numpy_number = isinstance(value, (np.generic, np.ndarray)) and not value.ndim
    plain = value.item() if numpy_number else value
    if dt.is_bool(dtype):
        return _truth(plain, value, where)
    if dt.is_float(dtype):
        return _real(plain, value, dtype, where)
    if isinstance(plain, bool) or not isinstance(plain, Integral):
        raise _no_number(value, where, "integer", "pass an int")
    whole = int(plain)
    low, high = dt.int_limits(dtype)
    if dtype != dt.INDEX and not low <= whole <= high:  # check_limits says it of sizes
        raise TensorIRError(f"{where} is {whole}, and {dtype} holds {low} to {high}")
    return whole


def _truth(plain: Any, value: Any, where: str) -> bool:
    if not isinstance(plain, bool):
        raise _no_number(value, where, "truth value", "pass True or False")
    return plain


def _real(plain: Any, value: Any, dtype: str, where: str) -> float:
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise _no_number(value, where, "real number", "pass a float")
    try:
        given = float(plain)
    except OverflowError:
        given = math.inf
    found = narrowed(given, dtype)
    if math.isinf(found) and plain != found:
        raise TensorIRError(
            f"{where} is {value!r}, which is beyond the largest {dtype}; pass float('inf') if "
            "infinity is meant, or declare a wider type"
        )
    return found


def _no_number(value: Any, where: str, wanted: str, remedy: str) -> TensorIRError:
    kind = type(value).__name__
    if hasattr(value, "shape") and not isinstance(value, np.generic):
        remedy = "pass .item() of it, where it is one"
    return TensorIRError(f"{where} is {value!r} of type {kind}, no {wanted}; {remedy}")


def word_of(number: Number, dtype: str) -> int:
    """The bits of a number of `dtype` as an integer; an integer is itself."""
    if not dt.is_float(dtype):
        return int(number)
    if dtype == "bfloat16":
        return int(np.float32(number).view(np.uint32)) >> 16
    held = np.asarray(number, dt.numpy_dtype(dtype))
    return int(held.view(f"uint{dt.bits(dtype)}"))


def held_word(word: int, dtype: str) -> Any:
    """The NumPy scalar of the bits of a number, as kernels take it: storage types as their bits."""
    if dtype in dt.STORAGE_ONLY:
        return np.uint16(word)
    if dt.is_float(dtype):
        return np.asarray(word, f"uint{dt.bits(dtype)}").view(dtype)[()]
    return dt.numpy_dtype(dtype).type(word)


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


def depends_on_data(e: Expr) -> bool:
    """Whether what is known of sizes does not say what `e` is: it reads memory, or a number among
    the arguments that is no size."""
    return e.has_loads or any([v.dtype != dt.INDEX for v in e.variables])


def refuse_values(e: Expr, what: str) -> None:
    """Raise TensorIRError where an extent or an index depends on a number that is no size."""
    for var in sorted(e.variables, key=str) if e.variables else ():
        if var.dtype != dt.INDEX:
            raise TensorIRError(
                f"{what} depends on {var.name!r}, a number of type {var.dtype} among the arguments "
                f"that is no size: give it as one, te.var({var.name!r}), or as {var.name}: i64"
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
