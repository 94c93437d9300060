"""Arrays with guard words around them, filled with poison that no kernel leaves by accident.

The pattern is a NaN of every float type that the IR has (0xFFF5, repeated), so that reading past
the end or using an unwritten output spoils the result instead of passing by luck.

Arrays lie 16 bytes past a cache line, where NumPy puts large ones: what is fastest on aligned
arrays need not be so there.
"""

from __future__ import annotations

import numpy as np

GUARD_BYTES = 4096
ALIGNMENT = 64
OFFSET = 16
"""Where large NumPy arrays lie past a cache line: behind the 16 bytes that malloc keeps for itself.

Vectors of 64 bytes then straddle two lines with every load, which decides between candidates: what
is fastest on aligned arrays was 1.3 times slower on those that users have. Outputs start at a cache
line, as those that kernels allocate do.
"""
_PATTERN = np.array([0xF5, 0xFF], np.uint8).view(np.uint16)[0]


class GuardedArray:
    """An array (`.array`, C-contiguous) in poisoned memory, `offset` bytes past a cache line."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, offset: int = OFFSET) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._memory = np.empty(size + 2 * GUARD_BYTES + 2 * ALIGNMENT, np.uint8)
        address = self._memory.ctypes.data + GUARD_BYTES
        self._start = GUARD_BYTES + -address % ALIGNMENT + offset
        self._end = self._start + size
        self._fill(0, self._memory.size)
        self.array: np.ndarray = self._memory[self._start : self._end].view(dtype).reshape(shape)

    @classmethod
    def copy_of(cls, values: np.ndarray) -> GuardedArray:
        guarded = cls(values.shape, values.dtype)
        guarded.array[...] = values
        return guarded

    def poison(self) -> None:
        """Fill the array with the pattern."""
        self._fill(self._start, self._end)

    def damage(self) -> str | None:
        """Which guard words were overwritten, as a phrase; None if none was."""
        before = self._changed(0, self._start)
        if before.size:
            return f"{self._start - int(before[0])} bytes before the start"
        after = self._changed(self._end, self._memory.size)
        if after.size:
            return f"{int(after[-1]) + 1} bytes past the end"
        return None

    def _fill(self, start: int, end: int) -> None:
        first, last = start + start % 2, end - end % 2
        self._memory[first:last].view(np.uint16)[...] = _PATTERN  # in place: arrays are large
        for at in (start, end - 1):
            self._memory[at : at + 1] = _pattern(at, at + 1)

    def _changed(self, start: int, end: int) -> np.ndarray:
        return np.flatnonzero(self._memory[start:end] != _pattern(start, end))


def _pattern(start: int, end: int) -> np.ndarray:
    """The bytes that belong at positions start to end."""
    words = np.full((end - start) // 2 + 1, _PATTERN)
    return words.view(np.uint8)[start % 2 :][: end - start]
