"""The interpreter: the living definition of what a PrimFunc means.

It runs any program, scheduled or not, lowered or not, one element at a time: it writes the program
as plain Python (python_source.py) and executes that. Loops of every kind run in order, vectors
lane by lane. Integers wrap to their type, but for int64 of variables, which are indices and exact;
floats are computed in float64 and rounded where they are stored or cast. Meant for small arrays:
about a million steps a second.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from tensorir import dtype as dt
from tensorir.annotations import checked
from tensorir.arrays import decode, encode, match_arguments, shape_of
from tensorir.errors import VerifyError
from tensorir.externs.extern import find_extern, held_dtype
from tensorir.func import PrimFunc, require_func
from tensorir.interpreter.python_source import Emitter
from tensorir.interpreter.sanitize import RaceEmitter, Races, combined_by_threads, placed
from tensorir.interpreter.thread_source import ThreadEmitter, ThreadRaceEmitter, has_kernels
from tensorir.interpreter.threads import ThreadRaces, Threads
from tensorir.numbers.folding import FOLD, wrap
from tensorir.numbers.intrin import MATH
from tensorir.scalars import Number, Numbers
from tensorir.stmt import Alloc
from tensorir.visit import walk

Cells = list[Any]


def interpret(
    func: PrimFunc,
    *arrays: Any,
    precise: bool = False,
    sizes: Numbers | None = None,
    races: bool = False,
) -> tuple[np.ndarray[Any, Any], ...]:
    """Run `func` and return its outputs, in call order, as new NumPy arrays.

    `arrays` are the inputs, with or without the in-out parameters, or all parameters. Outputs that
    are given start from these values, others unwritten. Numbers among the parameters stand at their
    places, or are all in `sizes`. Types and shapes must be those of the
    parameters (bfloat16: uint16 bits), else TensorIRError. Symbolic sizes come from the shapes, or
    from `sizes`. `precise` keeps float64 in all float buffers and rounds only the results.
    VerifyError is raised for an index outside of a buffer, for reading an element that was never
    written, for a block variable outside of its domain, for a division by zero of integers, and for
    an output element that was never written.
    With `races` the program runs with its buffers placed as by lowering, and VerifyError is also
    raised where two iterations of a parallel, vectorized or thread loop touch one element and one
    of them writes.
    """
    require_func(func, "interpret")
    given, values = match_arguments(func, arrays, sizes)
    shapes = {p: shape_of(p, values) for p in func.params}
    memory: list[Cells] = []
    for p in func.params:
        if p in given:
            memory.append(decode(given[p], p.dtype).ravel().tolist())
        else:
            memory.append([None] * math.prod(shapes[p]))
    run = _compile(placed(func) if races else func, precise, _watch(func) if races else None)
    with np.errstate(all="ignore"):
        try:
            run(memory, {v.name: values[v] for v in func.free_vars})
        except ZeroDivisionError:
            raise VerifyError(f"function {func.name!r} divides an integer by zero") from None
        outputs = func.outputs
        return tuple(
            _result(cells, p.name, shapes[p], p.dtype)
            for p, cells in zip(func.params, memory)
            if p in outputs
        )


@checked
def interpret_source(func: PrimFunc, precise: bool = False) -> str:
    """The Python text that `interpret` runs, for reading."""
    return _emitter(func, False)(func, precise, frozenset(RUNTIME)).source()


def _watch(func: PrimFunc) -> Races:
    if not has_kernels(func):
        return Races(combined_by_threads(func))
    allocated = {s.buffer for s in walk(func.body) if isinstance(s, Alloc)} | {*func.buffers}
    return ThreadRaces(
        *[
            frozenset([b.name for b in allocated if b.scope == scope])
            for scope in ("local", "shared")
        ]
    )


def _emitter(func: PrimFunc, races: bool) -> type[Emitter]:
    if has_kernels(func):
        return ThreadRaceEmitter if races else ThreadEmitter
    return RaceEmitter if races else Emitter


def _compile(
    func: PrimFunc, precise: bool, races: Races | None
) -> Callable[[list[Cells], dict[str, Number]], None]:
    watch = races if isinstance(races, ThreadRaces) else None
    scope = {**RUNTIME, "f32": _single(), "races": races, "threads": Threads(func.name, watch)}
    emitter = _emitter(func, races is not None)
    source = emitter(func, precise, frozenset(scope)).source()
    before = set(scope)
    exec(_code(source, f"<interpret {func.name}>"), scope)
    name = next(n for n in scope if n not in before and n != "__builtins__")
    return scope[name]  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _code(source: str, file: str) -> CodeType:
    """Compiling takes longer than most runs, and programs are often run again."""
    return compile(source, file, "exec")


def _single() -> Callable[[float], float]:
    """Rounding to float32: through a cell it takes a quarter of the time of np.float32. A cell
    belongs to one run, since runs in several threads would disturb each other in it."""
    cell = array("f", [0.0])

    def single(value: float) -> float:
        cell[0] = value
        return cell[0]

    return single


def _result(cells: Cells, name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    if None in cells:
        missing = tuple(int(i) for i in np.unravel_index(cells.index(None), shape))
        raise VerifyError(f"element {_at(name, missing)} of output {name!r} is never written")
    return encode(cells, dtype).reshape(shape)


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _outside(
    name: str, shape: tuple[int, ...], index: tuple[int, ...], block: str, verb: str
) -> NoReturn:
    raise VerifyError(f"block {block!r} {verb} {_at(name, index)}, outside of the shape {shape}")


def _unwritten(name: str, index: tuple[int, ...], block: str) -> NoReturn:
    raise VerifyError(f"block {block!r} reads {_at(name, index)}, which was never written")


def _no_instance(var: str, value: int, extent: int, block: str) -> NoReturn:
    raise VerifyError(
        f"block {block!r} runs with {var} = {value}, outside of its domain [0, {extent})"
    )


def _div(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def _fmax(a: float, b: float) -> float:
    return a if a > b or a != a else b


def _fmin(a: float, b: float) -> float:
    return a if a < b or a != a else b


def _reinterpret(value: Any, source: str, dtype: str) -> Any:
    return decode(encode([value], source).view(dt.numpy_dtype(dtype)), dtype).tolist()[0]


def truncate(value: float, dtype: str) -> int:
    """A float as an integer: towards zero; what does not fit, which C leaves open, wraps."""
    if not math.isfinite(value):
        return dt.int_limits(dtype)[0]
    return wrap(int(value), dtype)


def _wrapper(dtype: str) -> Callable[[int], int]:
    low, high = dt.int_limits(dtype)
    count = high - low + 1
    return lambda value: value if low <= value <= high else (value - low) % count + low


def _rounder(dtype: str) -> Callable[[float], float]:
    return lambda value: float(decode(encode([value], dtype), dtype)[0])


def _extern(
    name: str,
    cells: tuple[Cells, ...],
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[str, ...],
) -> tuple[Iterator[Any], ...]:
    """The elements of the outputs of an extern function, row by row."""
    func = find_extern(name)
    arrays = [
        np.array(each, held_dtype(dtype)).reshape(shape)
        for each, dtype, shape in zip(cells, dtypes, shapes)
    ]
    sizes = {n: size for dims, shape in zip(func.dims, shapes) for n, size in zip(dims, shape)}
    return tuple(iter(made.ravel().tolist()) for made in func.meaning(arrays, sizes, dtypes))


def _math(name: str) -> Callable[..., Any]:
    function, result = MATH[name].numpy, bool if MATH[name].result == "bool" else float
    return lambda *args: result(function(*map(np.float64, args)))


def _integer_math(name: str, dtype: str, *args: int) -> int:
    return int(MATH[name].numpy(*map(dt.numpy_dtype(dtype).type, args)))


RUNTIME: dict[str, Any] = {
    "outside": _outside,
    "unwritten": _unwritten,
    "no_instance": _no_instance,
    "div": _div,
    "fmin": _fmin,
    "fmax": _fmax,
    "shift_left": FOLD["<<"],
    "shift_right": FOLD[">>"],
    "reinterpret": _reinterpret,
    "integer_math": _integer_math,
    "truncate": truncate,
    "extern": _extern,
    "f32": _single(),  # each run has its own
    "f16": lambda value: float(np.float16(value)),
    "bf16": _rounder("bfloat16"),
    "inf": math.inf,
    "nan": math.nan,
    **{f"wrap_{d}": _wrapper(d) for d in dt.SIGNED + dt.UNSIGNED},
    **{f"math_{name}": _math(name) for name in MATH},
}
"""What the generated text may call."""
