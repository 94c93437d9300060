"""Inputs for a program, the results expected for them, and how far a result may be from those.

Float inputs are multiples of 1/8 in [-1, 1], which all float types hold exactly. Sums of products
of them stay exact in float32 up to 2**18 terms, so for plain contractions every order of summation
gives the very same bits, and the tolerance is zero. Where functions such as exp are called
sums round anyway, of few different terms mostly to the same side: inputs are then any numbers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autotune.errors import MeasureError
from tensorir import (
    Block,
    Buffer,
    Call,
    IterKind,
    Number,
    Numbers,
    PrimFunc,
    const,
    decode,
    dtype,
    int_value,
    stmt_exprs,
    substitute,
    walk,
    walk_exprs,
)

GROUPS = ("inputs", "expected", "tolerance", "loose")
"""The fields of a reference that are arrays by name."""

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
"""NumPy makes an array of answers, one for each byte: three times as long, and seven times for
arrays that are in no cache."""

PIECE = 1 << 16
"""Values that are compared at a time; what is computed for them stays in the caches."""


@dataclass(frozen=True)
class Reference:
    """Arrays by parameter name; bfloat16 is held as uint16.

    names      parameters that are arrays, in call order
    dtypes     IR types by name
    inputs     what the kernel reads, also of in-out parameters, as it is before the call
    expected   what it must write
    tolerance  largest absolute error, an array that broadcasts against the expected one
    loose      the same for kernels that compute the outputs by other expressions
    numbers    the arguments that are numbers
    """

    names: tuple[str, ...]
    dtypes: Mapping[str, str]
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    tolerance: Mapping[str, np.ndarray]
    loose: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str]) -> None:
        arrays = {"names": np.array(self.names), "types": np.array(list(self.dtypes.values()))}
        for group in GROUPS:
            arrays.update({f"{group}.{k}": v for k, v in getattr(self, group).items()})
        arrays.update({f"numbers.{name}": np.array(n) for name, n in self.numbers.items()})
        np.savez(path, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Reference:
        with np.load(path) as file:
            names = tuple(str(n) for n in file["names"])
            groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in (*GROUPS, "numbers")}
            for key in file.files:
                group, _, name = key.partition(".")
                if name:
                    groups[group][name] = file[key]
            types = dict(zip(names, (str(t) for t in file["types"]), strict=True))
        numbers = {name: n.item() for name, n in groups.pop("numbers").items()}
        return cls(names, types, **groups, numbers=numbers)

    def error(
        self, name: str, found: np.ndarray, loose: bool = False
    ) -> tuple[float, float, tuple[int, ...] | None]:
        """(largest error, its tolerance, the first index beyond tolerance or None) of an output.

        With `loose`, the kernel may compute it by other expressions. A NaN agrees with a NaN and
        an infinity with itself only.
        """
        expected = self.expected[name]
        bounds = self.tolerance[name] if not loose else self.loose.get(name, self.tolerance[name])
        if np.array_equal(found, expected):
            return 0.0, float(np.max(bounds, initial=0.0)), None
        tolerance = np.broadcast_to(bounds, expected.shape)
        # In one dimension, whose slices are views: those of `.flat` are copied value by value.
        got, want, most = (each.reshape(-1) for each in (found, expected, tolerance))
        largest, place, bad = 0.0, 0, None
        for start in range(0, expected.size, PIECE):
            at = slice(start, start + PIECE)
            error = _errors(got[at], want[at], self.dtypes[name])
            if error.max() > largest or start == 0:
                largest, place = float(error.max()), start + int(np.argmax(error))
            beyond = ~(error <= most[at])
            if bad is None and beyond.any():
                bad = start + int(np.argmax(beyond))
        if not expected.size:
            return 0.0, 0.0, None
        index = tuple(map(int, np.unravel_index(place if bad is None else bad, expected.shape)))
        return largest, float(tolerance[index]), None if bad is None else index


def _errors(found: np.ndarray, expected: np.ndarray, kind: str) -> np.ndarray:
    """How far each value is off; infinite where one is NaN or infinite and the other is not."""
    got, want = as_comparable(found, kind), as_comparable(expected, kind)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - want)
    if np.isfinite(error).all():
        return error
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two contiguous arrays hold the same bits: NaNs agree, and -0.0 is not 0.0."""
    same = one.nbytes == other.nbytes
    return same and not _memcmp(one.ctypes.data, other.ctypes.data, one.nbytes)


def draw_inputs(
    func: PrimFunc, seed: int = 0, sizes: Numbers | None = None, positive: bool = False
) -> dict[str, np.ndarray]:
    """Random arrays for the inputs of `func` and its in-out parameters; `positive` keeps floats
    away from zero and below.

    Raises MeasureError for a symbolic size that `sizes` does not give.
    """
    rng = np.random.default_rng(seed)
    exact = not _calls_functions(func)
    shapes = {p: concrete_shape(p, sizes) for p in func.given}
    return {p.name: _draw(p.dtype, shapes[p], rng, positive, exact) for p in func.given}


def draw_numbers(
    func: PrimFunc, seed: int = 0, sizes: Numbers | None = None, positive: bool = False
) -> dict[str, Number]:
    """The numbers among the arguments of `func`: those in `sizes`, and others as inputs are drawn.

    Raises MeasureError for a size that `sizes` does not give.
    """
    rng = np.random.default_rng((seed, 1))
    exact = not _calls_functions(func)
    found: dict[str, Number] = {}
    for scalar in func.scalars:
        given = (sizes or {}).get(scalar.name)
        if given is None and scalar.is_size:
            raise MeasureError(
                f"{func.name!r} takes the number {scalar.name!r}: give it in `sizes`"
            )
        drawn = _draw(scalar.dtype, (), rng, positive, exact)
        found[scalar.name] = decode(drawn, scalar.dtype).item() if given is None else given
    return found


def _calls_functions(func: PrimFunc) -> bool:
    exprs = (e for stmt in walk(func.body) for e in stmt_exprs(stmt))
    return any(isinstance(node, Call) for e in exprs for node in walk_exprs(e))


def make_reference(
    func: PrimFunc,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    tolerance: Mapping[str, np.ndarray] | None = None,
    loose: Mapping[str, np.ndarray] | None = None,
    sizes: Numbers | None = None,
) -> Reference:
    """The reference with these inputs and these results of the unscheduled program.

    `sizes` has the numbers among the arguments. Without `tolerance`, one is estimated from the
    results and the length of the reductions.
    """
    length = _reduction_length(func)
    tolerance = tolerance or {
        b.name: _tolerance(func, b, as_comparable(outputs[b.name], b.dtype), length)
        for b in func.outputs
    }
    names = tuple(p.name for p in func.params)
    types = {p.name: p.dtype for p in func.params}
    numbers = {s.name: (sizes or {})[s.name] for s in func.scalars}
    return Reference(
        names, types, dict(inputs), dict(outputs), dict(tolerance), dict(loose or {}), numbers
    )


def concrete_shape(buffer: Buffer, sizes: Numbers | None = None) -> tuple[int, ...]:
    """The shape of a parameter as integers, with `sizes` for its symbolic sizes."""
    used = {v for size in buffer.shape for v in size.variables}
    values = {v: const(sizes[v.name], v.dtype) for v in used if sizes and v.name in sizes}
    shape = []
    for size in buffer.shape:
        value = int_value(substitute(size, values))
        if value is None:
            raise MeasureError(
                f"parameter {buffer.name!r} has the symbolic size {size!r}: give a number for it"
                " in `sizes`"
            )
        shape.append(value)
    return tuple(shape)


def as_comparable(values: np.ndarray, kind: str) -> np.ndarray:
    """The values as float64, or as wide integers, so that a difference cannot overflow.

    A bfloat16 is given by its bits, as kernels hold it, or by its value, as the oracle does.
    """
    if kind == "bfloat16" and values.dtype == np.uint16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    if kind == "bool":
        return values.view(np.uint8).astype(np.float64)
    return values.astype(np.longdouble if dtype.bits(kind) == 64 else np.float64)


def _draw(
    kind: str, shape: tuple[int, ...], rng: np.random.Generator, positive: bool, exact: bool
) -> np.ndarray:
    if dtype.is_bool(kind):
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    low = 1 if positive else -8
    if not dtype.is_float(kind):
        low = 0 if dtype.is_unsigned(kind) else low
        return np.asarray(rng.integers(low, 9, shape)).astype(dtype.numpy_dtype(kind))
    drawn = rng.integers(low, 9, shape) / 8 if exact else rng.uniform(low / 8, 1.0, shape)
    values = np.asarray(drawn)
    if kind == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.numpy_dtype(kind))


def _tolerance(func: PrimFunc, output: Buffer, want: np.ndarray, length: int) -> np.ndarray:
    """c * eps * (|expected| + their root mean square), c growing with the root of the number of
    terms: rounding errors of a sum behave like a random walk over partial sums of that size."""
    if not dtype.is_float(output.dtype):
        return np.zeros((), np.float64)
    kinds = {b.dtype for b in (*func.buffers, output) if dtype.is_float(b.dtype)}
    eps = max(_EPS[kind] for kind in kinds)
    finite = np.where(np.isfinite(want), want, 0.0).astype(np.float64)
    scale = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    tiny = float(np.finfo(np.float32).tiny)
    return np.asarray((64 + 8 * length**0.5) * eps * (np.abs(finite) + scale) + tiny)


_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _reduction_length(func: PrimFunc) -> int:
    """The most terms that one block reduces; a symbolic extent counts as 1024."""
    longest = 1
    for stmt in walk(func.body):
        if isinstance(stmt, Block):
            terms = 1
            for it in stmt.iters:
                if it.kind is IterKind.REDUCE:
                    terms *= int_value(it.extent) or 1024
            longest = max(longest, terms)
    return longest
