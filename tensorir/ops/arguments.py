"""What operators check of their arguments; every refusal names the operator and the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Const, Expr, cast, const, int_value
from tensorir.te.tensor import Tensor

Axes = Union[int, Sequence[int], None]


def require(condition: bool, op: str, reason: str) -> None:
    """Raise TensorIRError, beginning with the operator's name, unless `condition`."""
    if not condition:
        raise TensorIRError(f"{op}: {reason}")


def check_tensor(op: str, what: str, x: Any, ndim: int | None = None) -> Tensor:
    """`x` if it is a tensor, of `ndim` dimensions where that is given."""
    require(isinstance(x, Tensor), op, f"{what} is {x!r}, not a tensor; use te.placeholder")
    if ndim is not None:
        require(
            x.ndim == ndim, op,
            f"{what} {x!r} has {x.ndim} dimensions and needs {ndim}; use ops.reshape",
        )  # fmt: skip
    assert isinstance(x, Tensor)
    return x


def check_float(op: str, what: str, x: Tensor) -> None:
    require(
        dt.is_float(x.dtype), op,
        f"{what} {x!r} is {x.dtype} and must hold floats; convert it with ops.cast",
    )  # fmt: skip


def check_axis(op: str, axis: Any, ndim: int, what: str = "axis") -> int:
    """`axis` counted from the front; negative ones count from the back."""
    valid = isinstance(axis, int) and not isinstance(axis, bool) and -ndim <= axis < ndim
    require(
        valid, op, f"{what}={axis!r} is no dimension of a tensor of rank {ndim}; "
        f"use an integer from {-ndim} to {ndim - 1}" if ndim else
        f"{what}={axis!r} is no dimension of a tensor of rank 0",
    )  # fmt: skip
    return int(axis) % ndim


def check_axes(op: str, axis: Axes, ndim: int) -> tuple[int, ...]:
    """Distinct axes in order, counted from the front; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    found = sorted(check_axis(op, a, ndim) for a in given)
    require(len(set(found)) == len(found), op, f"axis={axis!r} names a dimension twice")
    return tuple(found)


def static(op: str, what: str, size: Expr) -> int:
    """The value of a size that must be a number."""
    value = int_value(size)
    require(
        value is not None, op,
        f"{what} has the symbolic size {size!r} and must be a number; make the tensor with one",
    )  # fmt: skip
    assert value is not None
    return value


def same_size(a: Expr, b: Expr) -> bool:
    """Whether two sizes are the same number or the same symbol."""
    return a is b


def check_shape(
    op: str, what: str, x: Any, shape: Sequence[Expr], dtype: str | None = None
) -> Tensor:
    """`x` if it is a tensor of exactly this shape, and of this type where one is given."""
    t = check_tensor(op, what, x)
    fits = len(t.shape) == len(shape) and all(map(same_size, t.shape, shape))
    wanted = "(" + ", ".join(map(repr, shape)) + ("," if len(shape) == 1 else "") + ")"
    require(fits, op, f"{what} {t!r} must have the shape {wanted}")
    require(
        dtype is None or t.dtype == dtype, op,
        f"{what} {t!r} is {t.dtype} and must be {dtype}; convert it with ops.cast",
    )  # fmt: skip
    return t


def check_choice(op: str, what: str, value: Any, choices: Sequence[Any]) -> None:
    shown = ", ".join(map(repr, choices))
    known = getattr(value, "ndim", 0) == 0 and value in choices
    require(known, op, f"{what}={value!r} is unknown; use one of {shown}")


def per_dim(op: str, what: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """One integer for each of `rank` dimensions, from one for all or one for each."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    good = len(parts) == rank and all(isinstance(p, int) and p >= least for p in parts)
    require(good, op, f"{what}={value!r} must be an integer of at least {least}, or {rank} of them")
    return parts


def accumulator(dtype: str) -> str:
    """The type that numbers of `dtype` are computed in: float32 for float16 and bfloat16."""
    return "float32" if dtype in dt.STORAGE_ONLY else dtype


def wide(e: Expr) -> Expr:
    """`e` in the type that it is computed in."""
    return cast(accumulator(e.dtype), e)


def number(op: str, value: Any, dtype: str) -> Const:
    """A Python number as an operand next to tensors of type `dtype`."""
    kinds = (bool,) if dt.is_bool(dtype) else (int, float) if dt.is_float(dtype) else (int,)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    good = isinstance(value, kinds) and (dt.is_bool(dtype) or not isinstance(value, bool))
    require(good, op, f"operand {value!r} is no number of type {dtype}")
    if not dt.is_float(dtype):
        low, high = dt.int_limits(dtype)
        require(low <= value <= high, op, f"operand {value!r} does not fit into {dtype}")
    return const(value, accumulator(dtype))
