"""Loading compiled objects, and calling into them.

Kernels are found in their object as `<name>_packed(void **arrays, const int64_t *sizes)`, one
signature for all, and are called by the fixed code of runtime.c.

An object stays mapped until the process ends: threads of the OpenMP pool may still stand in its
code, and unmapping it under them would crash. What is freed is its workspace, when the last
kernel that uses the object goes.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backends.signature import Signature
from tensorir import Target, TensorIRError, Var, int_value
from tensorir import dtype as dt

RUNTIME_SOURCE = Path(__file__).with_name("runtime.c")
ALIGN_BYTES = 64
ALIGN_FROM = 1 << 14

_users: Counter[str] = Counter()
_lock = threading.RLock()

Pointers = ctypes.Array[ctypes.c_void_p]
Sizes = ctypes.Array[ctypes.c_int64]


class Runtime:
    """The compiled runtime.c at `path`."""

    def __init__(self, path: Path) -> None:
        with_gil = ctypes.PyDLL(str(path))
        self.entry = with_gil.tensorir_entry
        self.entry.restype = ctypes.py_object
        self.entry.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int64,
        ]
        self.time = ctypes.CDLL(str(path)).tensorir_time
        self.time.restype = ctypes.c_double
        self.time.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]


class CExecutable:
    """The kernel `symbol` of the object at `path`. Raises OSError, AttributeError if not there."""

    def __init__(self, path: Path, symbol: str, signature: Signature, runtime: Runtime) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self._packed = getattr(self.library, f"{symbol}_packed")
        self._packed.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._address = ctypes.cast(self._packed, ctypes.c_void_p)
        self._time = runtime.time
        self.entry = _make_entry(runtime, self._address, signature)
        with _lock:
            _users[str(path)] += 1
        release = getattr(self.library, f"{symbol}_release", None)
        # Not at exit: the process gives the memory back, and its threads may still run.
        weakref.finalize(self, _forget, str(path), release).atexit = False

    def run(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        pointers, numbers = _pack(arrays, sizes)
        return not self._packed(pointers, numbers)

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        pointers, numbers = _pack(arrays, sizes)
        return float(self._time(self._address, pointers, numbers, calls))

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return empty(shape, dtype)


class ForeignExecutable:
    """A kernel for a processor that has instructions this machine lacks: it can be read only."""

    entry: Callable[..., int] | None = None

    def __init__(self, name: str, target: Target, missing: Sequence[str]) -> None:
        self._message = (
            f"{name} was built for {str(target)!r}, and this processor lacks "
            f"{', '.join(missing)}; build for -march=native to run it here"
        )

    def run(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        raise TensorIRError(self._message)

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        raise TensorIRError(self._message)

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return empty(shape, dtype)


def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """A new array; large ones start at a cache line, so that no vector access straddles two."""
    kind = dt.numpy_dtype(dtype)
    size = kind.itemsize
    for extent in shape:
        size *= extent
    if size < ALIGN_FROM:
        return np.empty(shape, kind)
    raw = np.empty(size + ALIGN_BYTES, np.uint8)
    start = -raw.ctypes.data % ALIGN_BYTES
    return raw[start : start + size].view(kind).reshape(shape)


def _forget(path: str, release: Callable[[], None] | None) -> None:
    """One kernel less uses the object; the last one frees the workspace."""
    with _lock:
        _users[path] -= 1
        if _users[path] == 0:
            del _users[path]
            if release is not None:
                release()


def _pack(arrays: Sequence[Any], sizes: Sequence[int]) -> tuple[Pointers, Sizes]:
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    return pointers, (ctypes.c_int64 * len(sizes))(*sizes)


def _make_entry(
    runtime: Runtime, address: ctypes.c_void_p, signature: Signature
) -> Callable[..., int] | None:
    """The fast entry; None where a dimension is an expression, which only Python can evaluate."""
    words: list[int] = []
    for param in signature.params:
        words += [_letters(param.dtype), dt.itemsize(param.dtype), param.is_output]
        words.append(len(param.shape))
        for dim in param.shape:
            value = int_value(dim)
            if value is None and not isinstance(dim, Var):
                return None
            words.append(-1 - signature.sizes.index(dim) if isinstance(dim, Var) else value or 0)
    table = (ctypes.c_int64 * len(words))(*words)
    entry: Callable[..., int] = runtime.entry(
        address, len(signature.params), len(signature.sizes), table, len(words)
    )
    return entry


def _letters(dtype: str) -> int:
    """The row of LETTERS in runtime.c: how the buffer protocol names the kind of number."""
    kind = dt.numpy_dtype(dtype).kind
    return "biuf".index(kind)
