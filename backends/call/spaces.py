"""Kinds of memory: how arguments of a call are taken as arrays, and what may be wrong with them.

Here is the memory of the processor; that of CUDA is in backends.cuda.arrays.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from backends.call.foreign_arrays import borrow, is_foreign
from backends.call.signature import Param, Signature
from tensorir import TensorIRError, refuse_masked
from tensorir import dtype as dt

Array = np.ndarray[Any, Any]


class Space(Protocol):
    """A kind of memory. Its arrays have at least a shape and a NumPy type."""

    def adopt(self, signature: Signature, position: int, arg: object) -> Any:
        """The array that shares the memory of `arg`; TensorIRError where there is none."""
        ...

    def check_memory(self, signature: Signature, position: int, array: Any, arg: object) -> None:
        """Raise TensorIRError for an array that a kernel cannot use as it lies."""
        ...

    def span(self, array: Any) -> tuple[int, int]:
        """The addresses at which the memory of an array begins and ends."""
        ...


class HostSpace:
    """The memory of the processor, in arrays of NumPy and what shares it by DLPack or buffers."""

    def adopt(self, signature: Signature, position: int, arg: object) -> Array:
        """The NumPy array that shares the memory of `arg`."""
        if isinstance(arg, np.ndarray):
            if type(arg) is np.ndarray:
                return arg
            refuse_masked(arg, argument_name(signature, position))
            return arg.view(np.ndarray)
        if is_foreign(arg):
            return _adopt_foreign(signature, position, arg)
        try:
            return np.asarray(memoryview(arg))  # type: ignore[arg-type]
        except (TypeError, ValueError, NotImplementedError):
            param = signature.params[position]
            remedy = f"np.asarray(..., dtype={dt.numpy_dtype(param.dtype).name!r}){back(param)}"
            where = argument_name(signature, position)
            raise TensorIRError(
                f"{where} is a {type(arg).__name__}, not an array; convert with {remedy}"
            ) from None

    def check_memory(self, signature: Signature, position: int, array: Array, arg: object) -> None:
        param = signature.params[position]
        where = argument_name(signature, position)
        if not array.flags.c_contiguous:
            dense = ".contiguous()" if hasattr(arg, "contiguous") else "np.ascontiguousarray(...)"
            raise TensorIRError(
                f"{where} is not C-contiguous (strides {array.strides}); pass {dense}{back(param)}"
            )
        if not array.flags.aligned or array.ctypes.data % dt.itemsize(param.dtype):
            raise TensorIRError(
                f"{where} is not aligned to its {array.itemsize}-byte elements; pass a copy, "
                f".copy(){back(param)}"
            )
        if param.is_output and not array.flags.writeable:
            raise TensorIRError(
                f"{where} is read-only, and {signature.name} writes it; pass a copy{back(param)}"
            )

    def span(self, array: Array) -> tuple[int, int]:
        start = array.ctypes.data
        return start, start + array.nbytes


HOST = HostSpace()


def argument_name(signature: Signature, position: int) -> str:
    """How errors speak of an argument."""
    return f"{signature.name}: argument {signature.params[position].name!r} ({position})"


def back(param: Param) -> str:
    """What is to be done besides where a copy of an argument is passed."""
    return ", and copy the result back" if param.is_output else ""


def _adopt_foreign(signature: Signature, position: int, arg: object) -> Array:
    """The NumPy array that shares the memory of one of another library."""
    param, where = signature.params[position], argument_name(signature, position)
    try:
        array, is_bfloat16 = borrow(arg)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TensorIRError(
            f"{where}: the DLPack memory of this {type(arg).__name__} cannot be used: {error}; "
            "the array has to be on the CPU (.cpu()), without gradient (.detach()), carried out "
            "(.resolve_conj(), .resolve_neg()), in a type NumPy has or bfloat16"
        ) from error
    if is_bfloat16 and param.dtype != "bfloat16":
        raise TensorIRError(
            f"{where} has dtype bfloat16, expected {param.dtype}; convert with "
            f"{conversion(arg, param.dtype)}{back(param)}"
        )
    return array


def conversion(arg: object, dtype: str) -> str:
    """How an array of some library is converted, as text."""
    if isinstance(arg, np.ndarray) or hasattr(arg, "astype") or not hasattr(arg, "to"):
        return f".astype({dt.numpy_dtype(dtype).name!r})"
    return f".to({type(arg).__module__.partition('.')[0]}.{dtype})"
