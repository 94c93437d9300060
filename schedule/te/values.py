"""Numbers and lists as people type them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorir import Expr, int_value

if TYPE_CHECKING:
    from schedule.te.call import Call


def axes_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Axes given one by one or as a list."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return args


def factor_of(call: Call, factor: Any) -> int:
    """A factor as an int: a number, of Python or NumPy, or te.const."""
    value = factor
    if isinstance(factor, Expr):
        value = int_value(factor)
    elif hasattr(factor, "item"):
        value = factor.item()
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise call.refused(f"factor {factor!r} is not a positive integer")
    return value


def quotient(extent: Expr, size: int) -> Expr:
    """The number of parts of `size`, or the size of so many parts, rounded up."""
    return (extent + (size - 1)) // size
