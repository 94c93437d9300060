"""Extern functions in the reference: their meaning, row by row, and how far a kernel may be off.

The meaning is called on inputs rounded to their declared types. Where all inputs of a row carry no
error, a kernel hands its function the same numbers, and the outputs differ by what the function's
`rtol` allows: nothing, for a function that only selects and arranges. Where an input carries an
error, the outputs that the function calls `bounded` move by no more than the largest error in the
row; nothing can be said of the others (the order of two values that rounding may exchange), so
their bound is inf.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arrays import decode, encode, size_of
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.externs.extern import ExternFunc, find_extern, held_dtype
from tensorir.reference.exact import Array, numbers_dtype
from tensorir.scalars import Number
from tensorir.stmt import Extern, Part


def run_extern(
    call: Extern,
    memory: Mapping[Buffer, Any],
    algebra: Any,
    spatial: Mapping[Var, int],
    sizes: Mapping[Var, Number],
) -> None:
    """Write the outputs of `call` for all values of the `spatial` variables."""
    func = find_extern(call.name)
    dtypes = [part.buffer.dtype for part in call.parts]
    shapes = [tuple(size_of(n, sizes) for n in part.shape) for part in call.parts]
    named = {n: size for dims, shape in zip(func.dims, shapes) for n, size in zip(dims, shape)}
    for point in itertools.product(*map(range, spatial.values())):
        here = {**sizes, **dict(zip(spatial, point))}
        given = [_part(algebra, memory[p.buffer], _row(p, here)) for p in call.inputs]
        arrays = [_held(algebra.value(a), dtype) for a, dtype in zip(given, dtypes)]
        made = func.meaning(arrays, named, dtypes)
        numbers = [np.asarray(m, numbers_dtype(d)) for m, d in zip(made, dtypes[len(given) :])]
        bounds = row_bounds(func, given, arrays, numbers)
        for part, value, bound in zip(call.outputs, numbers, bounds):
            target = algebra.part(memory[part.buffer], _row(part, here))
            algebra.assign(target, algebra.within(value, bound))


def _row(part: Part, values: Mapping[Var, Number]) -> tuple[int, ...]:
    index: Sequence[Expr] = part.indices[: part.lead]
    return tuple(size_of(i, values) for i in index)


def _part(algebra: Any, held: Any, where: tuple[int, ...]) -> Any:
    return algebra.map(lambda a: a[(*where, ...)], held)


def _held(value: Array, dtype: str) -> Array:
    """Numbers as the array that the meaning of a function sees."""
    if not dt.is_float(dtype):
        return np.array(value)
    return np.asarray(decode(encode(value, dtype), dtype), held_dtype(dtype))


def row_bounds(
    func: ExternFunc, given: Sequence[Any], arrays: Sequence[Array], made: Sequence[Array]
) -> list[float]:
    """For each output the largest error of its elements, where `given` was rounded to `arrays`."""
    own = own_error(func, (*arrays, *made))
    errors = [np.asarray(getattr(a, "err", 0.0)) for a in given]
    if all(not np.any(e > 0) for e in errors):
        return [own] * len(made)
    moved = 0.0
    for a, error, array in zip(given, errors, arrays):
        value = np.asarray(a.value, np.float64)
        rounding = np.where(value == array, 0.0, np.abs(value - array))
        total = np.nan_to_num(error + rounding, nan=np.inf, posinf=np.inf)
        total = np.where(np.isnan(value) & np.isnan(array), error, total)
        moved = max(moved, float(np.max(total, initial=0.0)))
    return [moved + own if n in func.bounded else np.inf for n in range(len(made))]


def own_error(func: ExternFunc, row: Sequence[Array]) -> float:
    """How far apart C and meaning may be on a row of inputs and outputs."""
    if func.rtol == 0.0:
        return 0.0
    finite = [a[np.isfinite(a)].astype(np.float64) for a in map(np.asarray, row)]
    return func.rtol * max((float(np.abs(a).max(initial=0.0)) for a in finite), default=0.0)
