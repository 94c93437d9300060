"""Arithmetic on whole tensors, with the broadcasting of NumPy: each operation is a te.compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from tensorir.errors import TensorIRError
from tensorir.expr import Expr, binary, const, int_value
from tensorir.te.tensor import Tensor, TensorSlice

Function = TypeVar("Function", bound=Callable[..., Any])

NAMES = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide",
    "%": "mod", "**": "power", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
    "<<": "left_shift", ">>": "right_shift", "<": "less", "<=": "less_equal",
    "max": "maximum", "min": "minimum",
}  # fmt: skip
"""The names of the tensors that operators make."""


def broadcast_shape(what: str, *tensors: Tensor, last: int = 0) -> tuple[Expr, ...]:
    """The shape that NumPy's broadcasting gives, of all but the `last` dimensions of the tensors.

    TensorIRError where sizes differ. A symbolic size fits itself and 1 only: whether it is 1 is
    not known.
    """
    shapes = [t.shape[: t.ndim - last] for t in tensors]
    rank = max(map(len, shapes))
    found: list[Expr] = []
    for d in range(-rank, 0):
        size: Expr = const(1)
        for given in shapes:
            if len(given) < -d or int_value(given[d]) == 1:
                continue
            if int_value(size) != 1 and size is not given[d]:
                shown = " and ".join(map(repr, tensors))
                raise TensorIRError(
                    f"{what}: {shown} cannot be broadcast: dimension {d - last} has the sizes "
                    f"{size!r} and {given[d]!r}; sizes must be equal, or one of them 1"
                )
            size = given[d]
        found.append(size)
    return tuple(found)


def broadcast_indices(shape: Sequence[Expr], indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Where a tensor of `shape` is read for the element at `indices` of the broadcast shape."""
    last = indices[len(indices) - len(shape) :]
    return tuple(const(0) if int_value(s) == 1 else i for s, i in zip(shape, last))


def broadcast_read(x: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element of `x` that meets the element at `indices` of the broadcast shape."""
    return x[broadcast_indices(x.shape, indices)]


def is_whole(value: Any) -> bool:
    """Whether `value` is a tensor that an expression cannot stand for: one of dimensions."""
    return isinstance(value, (Tensor, TensorSlice)) and value.ndim > 0


def apply(name: str, f: Callable[..., Any], operands: Sequence[Any]) -> Tensor:
    """The tensor `name` of `f` of the elements of `operands`: tensors, numbers and expressions."""
    from tensorir.te.compute import compute

    tensors = []
    for operand in operands:
        if isinstance(operand, Tensor):
            tensors.append(operand)
        elif isinstance(operand, TensorSlice) or _is_element(operand):
            part = operand if isinstance(operand, TensorSlice) else next(filter(is_whole, operands))
            part.as_scalar()  # says which index it needs

    def element(*i: Expr) -> Any:
        return f(*[broadcast_read(t, i) if isinstance(t, Tensor) else t for t in operands])

    return compute(broadcast_shape(name, *tensors), element, name)  # type: ignore[no-any-return]


def _is_element(operand: Any) -> bool:
    """Whether an operand belongs to one element of a te.compute, which is being written."""
    if not isinstance(operand, Expr):
        return False
    return operand.has_loads or any(v.is_axis for v in operand.variables)


def operate(op: str, left: Any, right: Any) -> Any:
    """`left op right` where one of them is a tensor; one of rank zero stands for its element."""
    if is_whole(left) or is_whole(right):
        return apply(NAMES.get(op, "tensor"), lambda a, b: binary(op, a, b), (left, right))
    a, b = (t.as_scalar() if isinstance(t, Tensor) else t for t in (left, right))
    return binary(op, a, b)


def elementwise(function: Function) -> Function:
    """Let a function of expressions take whole tensors, element by element."""

    @functools.wraps(function)
    def either(*args: Any, **named: Any) -> Any:
        if not any(map(is_whole, (*args, *named.values()))):
            return function(*args, **named)
        keys = list(named)

        def of_elements(*parts: Any) -> Any:
            return function(*parts[: len(args)], **dict(zip(keys, parts[len(args) :])))

        return apply(function.__name__, of_elements, (*args, *named.values()))

    return cast(Function, either)
