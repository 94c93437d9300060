"""Random arguments, for timing a kernel whose data do not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.call.arguments import check_sizes
from backends.call.signature import Param, Signature
from tensorir import Numbers, TensorIRError, decode, number_of
from tensorir import dtype as dt


def random_arguments(
    signature: Signature,
    sizes: Numbers,
    empty: Callable[[tuple[int, ...], str], Any],
    seed: int = 0,
) -> list[Any]:
    """All arguments in call order: floats in [-1, 1), integers in [0, 8), what is made zero.

    `sizes` maps each symbolic size to its value, and any number among the arguments; those that
    are no sizes are drawn like arrays where it has none. `empty(shape, dtype)` makes the arrays.
    The same seed gives the same numbers. Raises TensorIRError for a missing or unknown size.
    """
    own = [var.name for var in signature.sizes]
    names = [*own, *(signature.params[i].name for i in signature.values)]
    missing = [name for name in own if name not in sizes]
    if missing:
        example = ", ".join(f"{name!r}: 128" for name in missing)
        raise TensorIRError(
            f"{signature.name}: the sizes {', '.join(missing)} are not known; pass arrays, or "
            f"sizes={{{example}}}"
        )
    unknown = [name for name in sizes if name not in names]
    if unknown:
        raise TensorIRError(f"{signature.name}: has no sizes {', '.join(unknown)}; it has {names}")
    values = {
        var: int(number_of(sizes[var.name], var.dtype, f"{signature.name}: size {var.name!r}"))
        for var in signature.sizes
    }
    check_sizes(signature, values)
    rng = np.random.default_rng(seed)
    return [
        _drawn(p, sizes, rng)
        if p.is_scalar
        else _fill(p, empty(signature.shape(p, values), p.dtype), rng)
        for p in signature.params
    ]


def _drawn(param: Param, sizes: Numbers, rng: np.random.Generator) -> Any:
    """The value of a number among the arguments."""
    if param.name in sizes:
        return sizes[param.name]
    held = _fill(param, np.empty((), dt.numpy_dtype(param.dtype)), rng)
    return decode(held, param.dtype).item()


def _fill(param: Param, array: Any, rng: np.random.Generator) -> Any:
    if not param.is_given:
        array[...] = 0
    elif param.dtype == "bfloat16":
        floats = np.asarray(rng.random(array.shape) * 2 - 1, np.float32)
        array[...] = floats.view(np.uint32) >> 16
    elif dt.is_float(param.dtype):
        array[...] = rng.random(array.shape, np.float32) * 2 - 1
    elif dt.is_bool(param.dtype):
        array[...] = rng.integers(0, 2, array.shape)
    else:
        array[...] = rng.integers(0, 8, array.shape)
    return array
