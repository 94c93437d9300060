"""Arrays at the end of memory."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE


class Guarded:
    """Arrays that end where memory ends: the page behind each may not be touched."""

    def __init__(self) -> None:
        self.kept: list[mmap.mmap] = []

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        whole = -(-max(size, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, whole + PAGE)
        self.kept.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        behind = ctypes.c_void_p(start + whole)
        assert protect(behind, ctypes.c_size_t(PAGE), 0) == 0
        array = np.frombuffer(memory, dtype, int(np.prod(shape)), whole - size).reshape(shape)
        return array
