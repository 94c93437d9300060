"""Memory for arrays: those of outputs, and those that a kernel keeps."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np

from backends.errors import OutOfMemory
from tensorir import dtype as dt

ALIGN_BYTES = 64
ALIGN_FROM = 1 << 14
HUGE_PAGE = 1 << 21
"""Bytes; an array that fills one is laid on huge pages, so that it needs few entries in the TLB."""

Array = np.ndarray[Any, Any]


def empty(shape: tuple[int, ...], dtype: str) -> Array:
    """A new array; large ones start at a cache line, so that no vector access straddles two."""
    return _aligned(shape, dtype, ALIGN_FROM)


def lasting(shape: tuple[int, ...], dtype: str) -> Array:
    """A new array to keep: at a cache line, and from 2 MiB on at and on huge pages (Linux)."""
    kind = dt.numpy_dtype(dtype)
    size = _bytes(shape, kind)
    if size < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return _aligned(shape, dtype, 0)
    # Twice the slack: what lies behind the array must not share its last huge page.
    whole = (size + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
    try:
        memory = mmap.mmap(-1, whole + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise _too_large(size) from error
    raw = np.frombuffer(memory, np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE
    try:
        memory.madvise(mmap.MADV_HUGEPAGE, start, whole)
    except OSError:  # a kernel without huge pages; the memory is good all the same
        pass
    return raw[start : start + size].view(kind).reshape(shape)


def lasting_copy(array: Array, dtype: str) -> Array:
    """A copy to keep, which a later change of `array` does not change."""
    result = lasting(array.shape, dtype)
    result[...] = array
    return result


def _aligned(shape: tuple[int, ...], dtype: str, smallest: int) -> Array:
    kind = dt.numpy_dtype(dtype)
    size = _bytes(shape, kind)
    if size < smallest:
        return np.empty(shape, kind)
    try:
        raw = np.empty(size + ALIGN_BYTES, np.uint8)
    except (MemoryError, ValueError) as error:  # the latter where no address is so large
        raise _too_large(size) from error
    start = -raw.__array_interface__["data"][0] % ALIGN_BYTES
    return raw[start : start + size].view(kind).reshape(shape)


def _too_large(size: int) -> OutOfMemory:
    return OutOfMemory(f"no memory for an array of {size} bytes, which the kernel allocates")


def _bytes(shape: tuple[int, ...], kind: np.dtype[Any]) -> int:
    return kind.itemsize * prod(shape)
