"""What arguments of the tuner have to be: what they are not is refused before anything is done."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any

from tensorir import (
    SCALAR_LIMITS,
    Number,
    PrimFunc,
    TensorIRError,
    check_constants,
    number_of,
)

LARGEST_SEED = 2**32 - 1
"""The largest that all cost models take."""


def integer(
    name: str,
    value: Any,
    least: int,
    most: int | None = None,
    error: type[TensorIRError] = TensorIRError,
) -> int:
    """`value` as an int, NumPy's included; raises `error` for anything else, bools among it."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise error(f"{name} must be an integer, not {value!r}")
    found = int(value)
    if found < least or (most is not None and found > most):
        bound = f"at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be {bound}, not {found}")
    return found


def number(
    name: str,
    value: Any,
    least: float,
    above: bool = False,
    error: type[TensorIRError] = TensorIRError,
) -> float:
    """`value` as a float of at least, or above, `least`; raises `error` for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise error(f"{name} must be a number, not {value!r}")
    found = float(value)
    if found < least or (above and found == least):
        if least:
            bound = f"be {'above' if above else 'at least'} {least:g}"
        else:
            bound = "be positive" if above else "not be negative"
        raise error(f"{name} must {bound}, not {value!r}")
    return found


def instance(
    name: str,
    value: Any,
    kinds: type | tuple[type, ...],
    words: str,
    error: type[TensorIRError] = TensorIRError,
) -> None:
    """Raise `error` where `value` is none of `kinds`, which `words` says for people."""
    if not isinstance(value, kinds):
        raise error(f"{name} must be {words}, not {_shown(value)}")


def check_func(func: Any) -> None:
    """Raise TensorIRError for what is no PrimFunc, and say how to get one."""
    if isinstance(func, PrimFunc):
        return
    remedy = "te.create_prim_func([inputs ..., outputs ...]) makes one"
    if isinstance(getattr(func, "func", None), PrimFunc):
        remedy = "give the program before scheduling"
    raise TensorIRError(f"what is tuned must be a PrimFunc, not {_shown(func)}; {remedy}")


def check_sizes(func: PrimFunc, sizes: Any) -> dict[str, Number]:
    """The values of symbolic sizes and of numbers among the arguments, as those of Python; raises
    TensorIRError for names that are none, and for values that they cannot have."""
    if sizes is None:
        return {}
    instance("sizes", sizes, Mapping, 'a mapping such as {"n": 128}, or None')
    known = {v.name: least for v, least in func.size_ranges}
    scalars = {scalar.name: scalar for scalar in func.scalars}
    names = [v.name for v in func.free_vars]
    for name in sizes:
        if name not in names:
            has = f"those of {func.name!r} are {', '.join(names)}" if names else "it has none"
            raise TensorIRError(f"sizes has {name!r}, which is no symbolic size; {has}")
    low, high = SCALAR_LIMITS
    found: dict[str, Number] = {}
    for name, value in sizes.items():
        if name not in known:
            found[name] = number_of(value, scalars[name].dtype, f"sizes[{name!r}]")
            continue
        least, most = known[name], high if name in scalars else None
        found[name] = integer(f"sizes[{name!r}]", value, low if least is None else least, most)
    return found


def check_names(func: PrimFunc, constants: Any) -> tuple[str, ...]:
    """The names of constants; raises TensorIRError for what is no collection of parameters."""
    words = "a collection of names of parameters, such as ('W',)"
    instance("constants", constants, Collection, words)
    check_constants(func, constants)
    return tuple(constants)


def check_path(
    name: str, value: Any, words: str, error: type[TensorIRError] = TensorIRError
) -> None:
    """Raise `error` for what names no file."""
    instance(name, value, (str, os.PathLike), words, error)
    if not os.fspath(value) or "\0" in os.fspath(value):
        raise error(f"{name} must be {words}, not {value!r}")


def _shown(value: Any) -> str:
    text = repr(value)
    short = text if len(text) <= 60 and "\n" not in text else "one"
    return f"{short} of type {type(value).__name__}"
