"""Whether the C text of a tensor intrinsic does what its meaning says: both run on samples."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc
from tensorir.interpreter.interpret import interpret
from tensorir.tensorize.tensor_intrin import TensorIntrin, known_intrins, tensorized
from tensorir.text.parser import parse

Runner = Callable[[PrimFunc, TensorIntrin], Callable[..., Any]]
"""Compiles a program that calls an intrinsic. The result takes arrays and writes into the last."""

KINDS = ("small", "small", "wide", "wide", *["extreme"] * 60)
FEWEST, TERMS = 8, 1 << 16
"""Samples of an intrinsic, of these at least so many, and more while they have fewer terms."""


def register_checked(intrin: TensorIntrin, *compiled: Runner) -> None:
    """Add an intrinsic; TensorIRError if its implementation does not do what its meaning says in
    any of the languages in which it is compiled."""
    if intrin.name in known_intrins():
        raise TensorIRError(f"there is a tensor intrinsic {intrin.name!r} already")
    assert intrin.func.params  # a meaning that cannot be used is refused here
    for each in compiled:
        check_intrin(intrin, each)
    known_intrins()[intrin.name] = intrin


def check_intrin(intrin: TensorIntrin, compiled: Runner) -> None:
    """Compare implementation and meaning, on dense operands and on parts of larger arrays."""
    flat = intrin.strides or all(param.ndim < 2 for param in intrin.func.params)
    for padding in (0,) if flat else (0, 3):
        func = _program(intrin, padding)
        run = compiled(func, intrin)
        terms = prod(loop.const_extent or 1 for loop in intrin.nest.loops)
        for seed, kind in enumerate(KINDS[: max(FEWEST, TERMS // terms)]):
            rng = np.random.default_rng(seed)
            arrays = [_values(p.const_shape or (), p.dtype, kind, rng) for p in func.params]
            with np.errstate(all="ignore"):
                wanted = interpret(func, *arrays)[0]
            run(*arrays)
            _compare(intrin, wanted, arrays[-1], kind)


def _program(intrin: TensorIntrin, padding: int) -> PrimFunc:
    """The tensorized meaning, on arrays whose rows are longer, each parameter's by its own."""
    func = intrin.func
    text = intrin.meaning
    for number, param in enumerate(func.params if padding else ()):
        shape = param.const_shape or ()
        if len(shape) > 1:
            kind = dt.SHORT[param.dtype]
            old = f"{param.name}: {kind}[{', '.join(map(str, shape))}]"
            new = ", ".join(map(str, (*shape[:-1], shape[-1] + padding + number)))
            intrin.require(old in text, f"its meaning does not say {old!r}")
            text = text.replace(old, f"{param.name}: {kind}[{new}]")
    made = parse(text)
    return PrimFunc(made.name, made.params, (), tensorized(made.body, intrin.name))


def _values(
    shape: tuple[int, ...], dtype: str, kind: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if dt.is_float(dtype):
        if kind == "small":
            return encode(rng.integers(-9, 10, shape), dtype)
        if kind == "wide":
            return encode(rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape), dtype)
        return encode(rng.choice([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], shape), dtype)
    if dt.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = dt.int_limits(dtype)
    if kind == "small":
        return rng.integers(max(low, -9), 10, shape).astype(dtype)
    if kind == "wide":
        return rng.integers(low, high, shape, endpoint=True, dtype=dtype)
    return rng.choice(np.array([low, high, 0, 1, high - 1], dtype), shape)


def _compare(intrin: TensorIntrin, wanted: Any, found: Any, kind: str) -> None:
    """Equal values, apart from the rounding of floats that are no small integers."""
    dtype = intrin.func.params[-1].dtype
    wanted, found = decode(wanted, dtype), decode(found, dtype)
    same = np.equal(wanted, found)
    if dt.is_float(dtype):
        same |= np.isnan(wanted) & np.isnan(found)
        if kind == "wide":  # fused multiply-adds, and sums in another order
            size = float(np.max(np.abs(wanted), initial=1.0))
            same |= np.abs(wanted - found) <= 1e-5 * size
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        output = intrin.func.params[-1].name
        raise TensorIRError(
            f"tensor intrinsic {intrin.name!r} does not do what it says: it makes "
            f"{output}{list(at)} {found[at]!r}, and its meaning {wanted[at]!r}"
        )
