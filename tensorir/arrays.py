"""Arrays of the caller: do they fit a PrimFunc, and what numbers do they hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Const, Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.scalars import Number, Numbers, check_limits, number_of
from tensorir.visit import substitute

Arrays = dict[Buffer, np.ndarray[Any, Any]]


def match_arguments(
    func: PrimFunc, arguments: Sequence[Any], sizes: Numbers | None = None
) -> tuple[Arrays, dict[Var, Number]]:
    """Pair `arguments` with the inputs of `func`, with these and its in-out parameters, or with all
    of its parameters, in call order; and the values of the symbolic sizes and of the scalars.

    Numbers among the arguments stand at their places, or are all in `sizes`. Raises TensorIRError
    where the number, a type or a shape differs.
    """
    known = dict(sizes or {})
    named = all(scalar.name in known for scalar in func.scalars)
    scalars = () if named else func.scalars
    arrays = list(arguments)
    params = _params(func, len(arrays) - len(scalars))
    order = [a for a in func.arguments if a in (*params, *scalars)]
    if len(arrays) != len(order):
        raise TensorIRError(
            f"function {func.name!r} takes {len(order)} inputs "
            f"({', '.join(a.name for a in order)}), or all {len(func.params) + len(scalars)} "
            f"parameters; got {len(arrays)} {'arguments' if scalars else 'arrays'}"
        )
    for scalar in reversed(scalars):
        at = order.index(scalar)
        known[scalar.name] = arrays.pop(at)
        order.pop(at)
    given = _match_arrays(params, arrays)
    return given, _bind_sizes(func, given, known)


def _params(func: PrimFunc, count: int) -> tuple[Buffer, ...]:
    """The parameters that `count` arrays are for."""
    for params in (func.params, func.inputs):
        if len(params) == count:
            return params
    return func.given


def _match_arrays(params: Sequence[Buffer], arrays: Sequence[Any]) -> Arrays:
    given = {}
    for param, array in zip(params, arrays):
        refuse_masked(array, f"array for {param.name!r}")
        held = np.asarray(array)
        if held.dtype != dt.numpy_dtype(param.dtype):
            raise TensorIRError(
                f"array for {param.name!r} has dtype {held.dtype}, and the parameter is "
                f"{param.dtype}; convert it with .astype({str(dt.numpy_dtype(param.dtype))!r})"
            )
        if held.ndim != param.ndim:
            raise TensorIRError(
                f"array for {param.name!r} has {held.ndim} dimensions, and the parameter "
                f"has {param.ndim}"
            )
        given[param] = held
    return given


def _where(func: PrimFunc, name: str, kind: str = "size") -> str:
    return f"{kind} {name!r} of function {func.name!r}"


def refuse_masked(array: Any, where: str) -> None:
    """Raise TensorIRError for a masked array of NumPy, since nothing here would see its mask."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(array, masked):
        raise TensorIRError(
            f"{where} is a masked array, and programs do not see masks; pass its values with "
            ".filled(...) in place of the masked ones, and the mask as an array of bool if needed"
        )


def _bind_sizes(func: PrimFunc, given: Arrays, known: Numbers) -> dict[Var, Number]:
    """The values of the symbolic sizes and of the scalars, from what is `known` by name and the
    shapes of the arrays.

    Raises TensorIRError where two arrays disagree, a size stays unknown or a shape does not fit.
    """
    scalars = {scalar.name: scalar for scalar in func.scalars}
    values: dict[Var, Number] = {}
    for name, value in known.items():
        var = scalars[name].var if name in scalars else Var(name)
        where = _where(func, name, "size" if var.dtype == dt.INDEX else "number")
        values[var] = number_of(value, var.dtype, where)
    for param, array in given.items():
        for size, extent in zip(param.shape, array.shape):
            if isinstance(size, Var):
                values.setdefault(size, extent)
    missing = [v.name for v in func.free_vars if v not in values]
    if missing:
        raise TensorIRError(
            f"{_where(func, missing[0])} is not the dimension of an input; "
            f"give it as sizes={{{missing[0]!r}: ...}}"
        )
    for size, least in func.size_ranges:
        is_scalar = size.name in scalars
        check_limits(int(values[size]), least, is_scalar, _where(func, size.name))
    for param, array in given.items():
        expected = shape_of(param, values)
        if array.shape != expected:
            raise TensorIRError(
                f"array for {param.name!r} has shape {array.shape}, and the parameter "
                f"{expected}"
            )
    return values


def shape_of(buffer: Buffer, sizes: Mapping[Var, Number]) -> tuple[int, ...]:
    """The shape of `buffer` as integers, given the symbolic sizes."""
    shape = tuple(size_of(s, sizes) for s in buffer.shape)
    for size, extent in zip(buffer.shape, shape):
        if extent < 0:
            known = ", ".join(f"{v.name} = {sizes[v]}" for v in sorted(size.variables, key=str))
            raise TensorIRError(
                f"{buffer.name!r} has the dimension {size!r}, which is {extent} for {known}"
            )
    return shape


def size_of(e: Expr, sizes: Mapping[Var, Number]) -> int:
    """The value of an integer expression of symbolic sizes."""
    value = int_value(substitute(e, {v: Const(n, v.dtype) for v, n in sizes.items()}))
    if value is None:
        raise TensorIRError(f"{e!r} is not an expression of the sizes of the parameters")
    return value


def decode(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The numbers that `array` holds: float64 for floats, else `array` itself.

    Any byte but 0 is True: a bool array that was made of other bytes may hold any.
    """
    if dt.is_bool(dtype):
        return np.asarray(array.view(np.uint8) != 0)
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if dt.is_float(dtype) else array


def encode(values: Any, dtype: str) -> np.ndarray[Any, Any]:
    """An array of `dtype` that holds `values`, rounded to nearest even; bfloat16 as uint16 bits."""
    with np.errstate(over="ignore"):
        if dtype != "bfloat16":
            return np.asarray(values, dt.numpy_dtype(dtype))
        single = np.asarray(values, np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)
