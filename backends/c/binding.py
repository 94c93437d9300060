"""Loading compiled objects, and calling into them.

Kernels are found in their object as `<name>_packed(void **arrays, const int64_t *sizes)`, one
signature for all, and are called by the fixed code of runtime.c.

The last kernel that uses an object frees its workspace and unmaps it: threads of the OpenMP pool
leave its code before a call returns. The library of OpenMP, where they wait, stays, since the
runtime needs it too.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backends.call.allocate import empty
from backends.call.signature import Signature
from backends.errors import BuildError
from tensorir import SCALAR_LIMITS, Var, int_value
from tensorir import dtype as dt

RUNTIME_SOURCE = Path(__file__).with_name("runtime.c")

_users: Counter[str] = Counter()
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # the child would wait for a thread that it does not have
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )

NUMBER, VALUE = -1, -2
"""What the row of an integer, or of another number, begins with in the table of runtime.c."""

VALUES = ("bool", "float64", "float32", "float16", "bfloat16")
"""Types of numbers as runtime.c numbers them; others are integers with limits."""

MAPPINGS = Path("/proc/self/maps")
MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")
NEAR_LIMIT = 32
"""Mappings that may be left where an object does not find room for its five."""

Pointers = ctypes.Array[ctypes.c_void_p]
Sizes = ctypes.Array[ctypes.c_int64]


class Runtime:
    """The compiled runtime.c at `path`."""

    def __init__(self, path: Path) -> None:
        with_gil = ctypes.PyDLL(str(path))
        kinds = (np.ndarray, int, float, bool)
        with_gil.tensorir_types(*map(ctypes.py_object, kinds))
        self.entry = with_gil.tensorir_entry
        self.entry.restype = ctypes.py_object
        self.entry.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_void_p),
        ]
        self.time = ctypes.CDLL(str(path)).tensorir_time
        self.time.restype = ctypes.c_double
        self.time.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]


class CExecutable:
    """The kernel `symbol` of the object at `path`. Raises OSError, AttributeError if not there.

    `bound` holds the arrays of some of the parameters, by position among the arrays: they are kept
    here, and a call takes the others.
    """

    def __init__(
        self,
        path: Path,
        symbol: str,
        signature: Signature,
        runtime: Runtime,
        bound: Mapping[int, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.path = path
        self._bound = dict(bound or {})
        self._given = [i for i in range(len(signature.arrays)) if i not in self._bound]
        library = open_object(path, signature.name)
        try:
            self._packed = getattr(library, f"{symbol}_packed")
        except AttributeError:
            close_object(library)
            raise
        self._packed.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._address = ctypes.cast(self._packed, ctypes.c_void_p)
        self._time = runtime.time
        self.entry = _make_entry(runtime, self._address, signature, self._bound)
        with _lock:
            _users[str(path)] += 1
        release = getattr(library, f"{symbol}_release", None)
        # Not at exit: the process gives the memory back, and its threads may still run.
        weakref.finalize(self, _forget, str(path), release, library).atexit = False

    def run(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        pointers, numbers = pack(self._all(arrays), sizes)
        return not self._packed(pointers, numbers)

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        pointers, numbers = pack(self._all(arrays), sizes)
        return float(self._time(self._address, pointers, numbers, calls))

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return empty(shape, dtype)

    def _all(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of all parameters, given those of a call."""
        every = {**self._bound, **dict(zip(self._given, arrays, strict=True))}
        return [every[i] for i in range(len(every))]


def open_object(path: Path, name: str) -> ctypes.CDLL:
    """The object at `path`, mapped once more. Raises OSError where it cannot be, and BuildError
    where the process has no room for it."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        full = _mappings_in_use()
        if full is None:
            raise
        raise BuildError(
            f"{name}: no room for the compiled object: this process has {full[0]} of the {full[1]} "
            "memory mappings that the system allows, and each kernel takes about five; let go of "
            "kernels that are no longer used, or raise the limit (sysctl vm.max_map_count)"
        ) from error


def close_object(library: ctypes.CDLL) -> None:
    """Undo one `open_object`; the last one unmaps the object."""
    _ctypes.dlclose(library._handle)


def _mappings_in_use() -> tuple[int, int] | None:
    """How many there are and may be, if that is why nothing more can be mapped."""
    try:
        with MAPPINGS.open("rb") as lines:
            count = sum(1 for _ in lines)
        most = int(MOST_MAPPINGS.read_text())
    except (OSError, ValueError):  # a system that counts otherwise, or not at all
        return None
    return (count, most) if count + NEAR_LIMIT > most else None


def _forget(path: str, release: Callable[[], None] | None, library: ctypes.CDLL) -> None:
    """One kernel less uses the object; the last one frees the workspace."""
    with _lock:
        _users[path] -= 1
        if _users[path] == 0:
            del _users[path]
            if release is not None:
                release()
        close_object(library)


def pack(arrays: Sequence[Any], sizes: Sequence[int]) -> tuple[Pointers, Sizes]:
    """The arguments of a `<name>_packed`: `sizes` are followed by the bits of values."""
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    return pointers, (ctypes.c_int64 * len(sizes))(*sizes)


def _make_entry(
    runtime: Runtime,
    address: ctypes.c_void_p,
    signature: Signature,
    bound: Mapping[int, np.ndarray[Any, Any]],
) -> Callable[..., int] | None:
    """The fast entry; None where a dimension is an expression, which only Python can evaluate."""
    total = len(signature.arrays)
    words: list[int] = []
    positions = iter(range(total))
    for param in signature.params:
        if param.is_scalar:
            words += _number_row(signature, signature.params.index(param))
            continue
        position = next(positions)
        if position in bound:
            continue
        words += [_letters(param.dtype), dt.itemsize(param.dtype), param.is_output]
        words += [position, len(param.shape)]
        for dim in param.shape:
            value = int_value(dim)
            if value is None and not isinstance(dim, Var):
                return None
            words.append(-1 - signature.sizes.index(dim) if isinstance(dim, Var) else value or 0)
    table = (ctypes.c_int64 * len(words))(*words)
    kept = (ctypes.c_void_p * total)(
        *(bound[i].ctypes.data if i in bound else None for i in range(total))
    )
    given = len(signature.params) - len(bound)
    count = len(signature.sizes) + len(signature.values)
    entry: Callable[..., int] = runtime.entry(
        address, given, count, table, len(words), total, kept
    )
    return entry


def _number_row(signature: Signature, position: int) -> list[int]:
    """The row of an argument that is a number: its limits or its type, and which number it is."""
    param = signature.params[position]
    if param.is_size:
        low, high = SCALAR_LIMITS
        least = low if param.least is None else max(low, param.least)
        return [NUMBER, least, high, signature.sizes.index(Var(param.name)), 0]
    place = len(signature.sizes) + signature.values.index(position)
    if param.dtype in VALUES:
        return [VALUE, VALUES.index(param.dtype), 0, place, 0]
    low, high = dt.int_limits(param.dtype)
    return [NUMBER, low, min(high, dt.int_limits(dt.INDEX)[1]), place, 0]


def _letters(dtype: str) -> int:
    """The row of LETTERS in runtime.c: how the buffer protocol names the kind of number."""
    kind = dt.numpy_dtype(dtype).kind
    return "biuf".index(kind)
