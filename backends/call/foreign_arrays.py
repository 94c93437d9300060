"""Arrays of other libraries, which share their memory by DLPack.

NumPy takes them, but for bfloat16, which it does not have: the description in the capsule is read
here, and the bits are an array of uint16. Of arrays that were made for a call, a caller whose own
arrays are all of one library gets arrays of that library.

Arrays of NumPy need none of this: the compiled entry checks them through the buffer protocol.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HOST = (1, 3)
"""Kinds of devices whose memory is the processor's: its own, and what CUDA has pinned."""

BFLOAT16 = (4, 16, 1)
"""Kind, bits and lanes of the type in a description."""


class _Tensor(ctypes.Structure):
    """DLTensor, at the start of what a capsule points to."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Borrowed:
    """Memory of which a capsule has a share, until this object goes."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def is_foreign(arg: object) -> bool:
    """Whether `arg` is an array of another library than NumPy."""
    return hasattr(arg, "__dlpack__") and not isinstance(arg, (np.ndarray, np.generic))


def borrow(arg: Any) -> tuple[Array, bool]:
    """The array that shares the memory of a foreign one, and whether it holds bfloat16, as uint16.

    Raises BufferError, RuntimeError, TypeError or ValueError with the reason of the library or of
    NumPy where there is none.
    """
    lazy = getattr(arg, "is_neg", None)
    if callable(lazy) and lazy():
        raise BufferError("it is a negation that is not yet carried out")
    try:
        return _writable_view(arg, np.from_dlpack(arg)), False
    except (BufferError, RuntimeError, TypeError, ValueError):
        bits = _bfloat16_bits(arg)
        if bits is None:
            raise
        return bits, True


def library_of(args: Iterable[object]) -> Any:
    """The module that makes arrays such as `args`, all of them foreign, of others; else None."""
    found = None
    for arg in args:
        if not is_foreign(arg):
            return None
        space = getattr(arg, "__array_namespace__", None)
        name = type(arg).__module__.partition(".")[0]
        module = space() if callable(space) else sys.modules.get(name)
        if not hasattr(module, "from_dlpack") or found not in (None, module):
            return None
        found = module
    return found


def lend(array: Array, library: Any, bfloat16: bool) -> Any:
    """`array` as an array of `library`, of the same memory."""
    lent = library.from_dlpack(array)
    return lent.view(library.bfloat16) if bfloat16 else lent


def held_tensor(capsule: Any) -> Any:
    """The description in a capsule of DLPack, which has to be kept as long as that is used."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


def _writable_view(arg: Any, array: Array) -> Array:
    """Old DLPack cannot say "writable" and NumPy assumes the worst; ask the owner by __array__."""
    if array.flags.writeable or not hasattr(arg, "__array__"):
        return array
    other = np.asarray(arg)
    same = _address(other) == _address(array) and other.strides == array.strides
    return other if same and other.dtype == array.dtype else array


def _address(array: Array) -> int:
    """Where the first element lies; `array.ctypes.data` takes five times as long."""
    return int(array.__array_interface__["data"][0])


def _bfloat16_bits(arg: Any) -> Array | None:
    """The bits of a foreign array of bfloat16 in the processor's memory; None for others."""
    if arg.__dlpack_device__()[0] not in HOST:
        return None
    capsule = arg.__dlpack__()
    held = held_tensor(capsule)
    if (held.code, held.bits, held.lanes) != BFLOAT16:
        return None
    shape = tuple(held.shape[: held.ndim])
    strides = tuple(2 * n for n in held.strides[: held.ndim]) if held.strides else None
    if 0 in shape:
        return np.empty(shape, np.uint16)
    interface = {
        "shape": shape,
        "typestr": np.dtype(np.uint16).str,
        "data": (held.data + held.byte_offset, False),
        "strides": strides,
        "version": 3,
    }
    return np.asarray(_Borrowed(capsule, interface))
