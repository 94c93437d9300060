"""The check of an extern function: its text against its meaning, on arrays of many sizes.

Outputs are filled with noise first and lie between guard elements, so that what is not written,
and what is written outside, shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Var, const
from tensorir.externs.extern import Array, ExternFunc, Sizes, add_extern, held_dtype, require_new
from tensorir.func import PrimFunc
from tensorir.stmt import Block, Extern, Part
from tensorir.verifier.extern import unmet_condition

ExternRunner = Callable[[PrimFunc, ExternFunc], Callable[..., Any]]
"""Compiles a program that calls a function. The result takes all arrays, inputs first."""

SAMPLES = (0, 1, 2, 3, 7, 17, 64, 131)
"""The sizes that are tried: each for all dimensions at once, and random mixtures."""

MIXTURES = 12
GUARD = 16


def register_extern_checked(func: ExternFunc, compiled: ExternRunner, text: str = "C") -> None:
    """Make `func` known; TensorIRError if its C does not do what its meaning says."""
    require_new(func)
    check_extern(func, compiled, text=text)
    add_extern(func)


def check_extern(
    func: ExternFunc,
    compiled: ExternRunner,
    rows: Collection[tuple[str, ...]] | None = None,
    text: str = "C",
) -> None:
    """Compare the C of `func` with its meaning, for each of its combinations of dtypes, or for
    `rows` of them. `text` is what messages call that which was compiled."""
    tried = 0
    for number, row in enumerate(func.dtypes):
        if rows is not None and tuple(row) not in rows:
            continue
        run = compiled(_program(func, number), func)
        for seed, sizes in enumerate(_sizes(func)):
            tried += 1
            _compare_on(func, row, run, sizes, np.random.default_rng(seed), text)
    func.require(tried > 0, f"no sizes that were tried satisfy {func.where!r}")


def _program(func: ExternFunc, number: int) -> PrimFunc:
    """A call of `func` alone, with symbolic sizes."""
    params = [
        Buffer(f"x{n}", tuple(Var(f"size_{d}") for d in dims), dtype)
        for n, (dims, dtype) in enumerate(zip(func.dims, func.dtypes[number]))
    ]
    parts = [Part(p, tuple(const(0) for _ in p.shape), p.shape) for p in params]
    count = len(func.inputs)
    call = Extern(func.name, tuple(parts[count:]), tuple(parts[:count]))
    return PrimFunc(f"check_{number}", tuple(params), (), Block("call", (), call))


def _sizes(func: ExternFunc) -> Iterator[dict[str, int]]:
    names, rng = func.sizes, np.random.default_rng(0)
    fixed = [dict.fromkeys(names, size) for size in SAMPLES[: None if names else 1]]
    mixed = [{n: int(rng.choice(SAMPLES)) for n in names} for _ in range(MIXTURES)]
    seen: set[tuple[int, ...]] = set()
    for sizes in itertools.chain(fixed, mixed):
        key = tuple(sizes.values())
        if key not in seen and _allowed(func, sizes):
            yield sizes
        seen.add(key)


def _allowed(func: ExternFunc, sizes: Sizes) -> bool:
    return unmet_condition(func, {name: const(size) for name, size in sizes.items()}) is None


def _compare_on(
    func: ExternFunc,
    dtypes: tuple[str, ...],
    run: Callable[..., Any],
    sizes: Sizes,
    rng: np.random.Generator,
    text: str,
) -> None:
    shapes = [tuple(sizes[d] for d in dims) for dims in func.dims]
    count = len(func.inputs)
    for kind in ("small", "wide", "extreme"):
        if func.sample is None:
            given = [_values(s, d, kind, rng) for s, d in zip(shapes[:count], dtypes)]
        else:
            given = [np.array(a) for a in func.sample(rng, sizes)]
            _check_sample(func, given, shapes[:count], dtypes)
        arrays = [encode(a, d) if d == "bfloat16" else a for a, d in zip(given, dtypes)]
        guarded = [_guarded(s, d, rng) for s, d in zip(shapes[count:], dtypes[count:])]
        before = [a.tobytes() for a in arrays]
        around = [(w[:GUARD].copy(), w[len(w) - GUARD :].copy()) for w, _ in guarded]
        with np.errstate(all="ignore"):
            wanted = func.meaning(given, sizes, dtypes)
        run(*arrays, *(view for _, view in guarded))
        about = f"for sizes {dict(sizes)} and dtypes {dtypes}"
        same = all(a.tobytes() == b for a, b in zip(arrays, before))
        func.require(same, f"its {text} writes into an input {about}")
        for (whole, _), (low, high) in zip(guarded, around):
            kept = whole[:GUARD].tobytes() == low.tobytes()
            kept = kept and whole[len(whole) - GUARD :].tobytes() == high.tobytes()
            func.require(kept, f"its {text} writes outside of an output {about}")
        for n, ((_, view), want) in enumerate(zip(guarded, wanted)):
            dtype = dtypes[count + n]
            found = decode(view, dtype) if dtype == "bfloat16" else view
            said = f"{about}, {text}"
            _compare(func, n, np.asarray(found), want, (*given, *wanted), said)


def _check_sample(
    func: ExternFunc, given: Sequence[Array], shapes: Sequence[Any], dtypes: Sequence[str]
) -> None:
    found = [(a.shape, a.dtype) for a in given]
    wanted = [(shape, held_dtype(dtype)) for shape, dtype in zip(shapes, dtypes)]
    func.require(found == wanted, f"its sample has {found}, and its inputs are {wanted}")


def _guarded(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Memory full of noise, and the part of it, between guards, that is an array."""
    kind, count = dt.numpy_dtype(dtype), int(np.prod(shape, dtype=np.int64))
    size = count + 2 * GUARD
    if dt.is_bool(dtype):
        whole = rng.integers(0, 2, size).astype(bool)
    else:
        whole = np.frombuffer(rng.bytes(size * kind.itemsize), kind).copy()
    return whole, whole[GUARD : GUARD + count].reshape(shape)


def _values(
    shape: tuple[int, ...], dtype: str, kind: str, rng: np.random.Generator
) -> Array:
    """Inputs as a meaning sees them: small with many equal ones, of all magnitudes, and extreme."""
    held = held_dtype(dtype)
    if dt.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(held)
    if not dt.is_float(dtype):
        low, high = dt.int_limits(dtype)
        if kind == "small":
            return rng.integers(max(low, -4), 5, shape).astype(held)
        if kind == "wide":
            return rng.integers(low, high, shape, endpoint=True, dtype=held)
        return rng.choice(np.array([low, high, 0, 1], held), shape)
    if kind == "small":
        values = rng.integers(-4, 5, shape).astype(np.float64)
    elif kind == "wide":
        values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    else:
        values = rng.choice([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], shape)
    return decode(encode(values, dtype), dtype).astype(held)


def _compare(
    func: ExternFunc, number: int, found: Array, wanted: Array, row: Sequence[Array], said: str
) -> None:
    same = np.equal(found, wanted)
    if np.issubdtype(wanted.dtype, np.floating):
        same |= np.isnan(found) & np.isnan(wanted)
        if func.rtol:
            finite = [np.abs(a[np.isfinite(a)].astype(np.float64)) for a in row]
            largest = max((float(a.max(initial=0.0)) for a in finite), default=0.0)
            with np.errstate(invalid="ignore"):
                same |= np.abs(found.astype(np.float64) - wanted) <= func.rtol * largest
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise TensorIRError(
            f"extern function {func.name!r} does not do what it says: {said} makes element "
            f"{list(at)} of output {number} {found[at]!r}, and its meaning {wanted[at]!r}"
        )
