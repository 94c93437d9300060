"""Arrays in the memory of OpenCL devices: pyopencl's arrays, its buffers and shared virtual memory.

pyopencl is not imported: an array that is given brings it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from backends.call.signature import Signature
from backends.call.spaces import HOST, argument_name, back
from tensorir import TensorIRError, int_value
from tensorir import dtype as dt

FAR = 1 << 64
"""Addresses of one buffer, as many as any has; those of two buffers never meet."""


@dataclass(frozen=True, eq=False)
class ClArray:
    """An array on a device, without a copy.

    memory   what a kernel is given; None where there are no elements
    strides  in bytes; None where rows are dense
    address  where it begins, to be compared with others
    context  and `queue`, where its owner knows them
    """

    memory: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writeable: bool
    address: int
    context: Any
    queue: Any
    owner: Any

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


class ClSpace:
    """How arguments of OpenCL kernels are taken; see backends.call.arguments. Those of the
    processor are NumPy's."""

    def adopt(self, signature: Signature, position: int, arg: object) -> Any:
        if not is_on_device(arg):
            return HOST.adopt(signature, position, arg)
        return cl_array(signature, position, arg)

    def check_memory(self, signature: Signature, position: int, array: Any, arg: object) -> None:
        if not isinstance(array, ClArray):
            HOST.check_memory(signature, position, array, arg)
            return
        where = argument_name(signature, position)
        param = signature.params[position]
        if array.strides is not None:
            raise TensorIRError(
                f"{where} is not C-contiguous (strides {array.strides}); pass .copy(){back(param)}"
            )
        if param.is_output and not array.writeable:
            raise TensorIRError(
                f"{where} is read-only, and {signature.name} writes it; pass a copy{back(param)}"
            )

    def span(self, array: Any) -> tuple[int, int]:
        if isinstance(array, ClArray):
            return array.address, array.address + array.nbytes
        return HOST.span(array)


def is_on_device(arg: object) -> bool:
    """Whether `arg` is an array, a buffer or shared virtual memory of pyopencl."""
    cl = sys.modules.get("pyopencl")
    if cl is None or isinstance(arg, np.ndarray):
        return False
    return isinstance(arg, (cl.MemoryObjectHolder, cl.SVMPointer)) or _is_array(arg)


def _is_array(arg: object) -> bool:
    arrays = sys.modules.get("pyopencl.array")
    return arrays is not None and isinstance(arg, arrays.Array)


def cl_array(signature: Signature, position: int, arg: Any) -> ClArray:
    """The array behind an argument on a device. Raises TensorIRError where there is none."""
    if _is_array(arg):
        return _of_array(argument_name(signature, position), arg)
    if isinstance(arg, sys.modules["pyopencl"].SVM) and isinstance(arg.mem, np.ndarray):
        array = arg.mem
        strides = None if array.flags.c_contiguous else array.strides
        place = array.__array_interface__["data"][0]
        writeable = array.flags.writeable
        return ClArray(arg, array.shape, array.dtype, strides, writeable, place, None, None, arg)
    return _of_bytes(signature, position, arg)


def _of_array(where: str, arg: Any) -> ClArray:
    memory, dense = arg.base_data, arg.flags.c_contiguous or arg.size == 0
    strides = None if dense else arg.strides
    if arg.size and dense and arg.offset:
        memory = _part(where, memory, arg.offset, arg.nbytes)
    place, writeable = _place(memory) if arg.size else (0, True)
    context = arg.context if arg.queue is None else arg.queue.context
    return ClArray(
        memory if arg.size else None,
        tuple(arg.shape),
        arg.dtype,
        strides,
        writeable,
        place,
        context,
        arg.queue,
        arg,
    )


def _part(where: str, memory: Any, offset: int, size: int) -> Any:
    """A buffer that begins inside of another one."""
    cl = sys.modules["pyopencl"]
    try:
        return memory.get_sub_region(offset, size)
    except (AttributeError, cl.Error):
        raise TensorIRError(
            f"{where} begins {offset} bytes into its memory, where no buffer of this device can "
            "begin; pass .copy()"
        ) from None


def _of_bytes(signature: Signature, position: int, arg: Any) -> ClArray:
    """A buffer has no shape: it has to be that of the parameter, or one dimension."""
    param, where = signature.params[position], argument_name(signature, position)
    dtype = dt.numpy_dtype(param.dtype)
    shape = tuple(int_value(extent) for extent in param.shape)
    if len(shape) == 1 and shape[0] is None:
        shape = (arg.size // dtype.itemsize,)
    if None in shape:
        raise TensorIRError(
            f"{where} is a {type(arg).__name__}, which has no shape, and its dimensions are not "
            "all numbers: pass pyopencl.array.Array(queue, shape, dtype, data=...)"
        )
    extents = tuple(extent for extent in shape if extent is not None)
    needed = prod(extents) * dtype.itemsize
    if needed and arg.size != needed:
        raise TensorIRError(
            f"{where} has {arg.size} bytes, expected {needed}: {dtype.name} of shape "
            f"{list(extents)}"
        )
    place, writeable = _place(arg)
    context = getattr(arg, "context", None)
    memory = arg if needed else None
    return ClArray(memory, extents, dtype, None, writeable, place, context, None, arg)


def _place(memory: Any) -> tuple[int, bool]:
    """Where memory begins, and whether kernels may write it."""
    cl = sys.modules["pyopencl"]
    if not isinstance(memory, cl.MemoryObjectHolder):
        return int(memory.svm_ptr), True
    whole = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) or memory
    offset = memory.get_info(cl.mem_info.OFFSET) if whole is not memory else 0
    writeable = not memory.flags & cl.mem_flags.READ_ONLY
    return whole.int_ptr * FAR + offset, writeable


def new_array(like: Sequence[ClArray], context: Any, queue: Any, shape: Any, dtype: str) -> Any:
    """An array for an output, of the kind of those that are given: an Array where any is one, else
    shared virtual memory where all are, else a buffer."""
    import pyopencl as cl

    kind, size = dt.numpy_dtype(dtype), prod(shape) * dt.numpy_dtype(dtype).itemsize
    arrays = [each.owner for each in like if _is_array(each.owner)]
    if arrays:
        return type(arrays[0])(queue, shape, kind, allocator=arrays[0].allocator)
    if size and all(isinstance(each.owner, cl.SVMPointer) for each in like):
        return cl.SVM(cl.csvm_empty(context, shape, kind))
    return cl.Buffer(context, cl.mem_flags.READ_WRITE, max(size, 1))


def the_context(signature: Signature, arrays: Mapping[int, ClArray]) -> Any:
    """The context of all arrays; None where none of them knows it. Raises TensorIRError where they
    are of several."""
    known = {i: each.context for i, each in arrays.items() if each.context is not None}
    if not known:
        return None
    first = min(known)
    for i, context in known.items():
        if context != known[first]:
            raise TensorIRError(
                f"{argument_name(signature, i)} is in another OpenCL context than argument "
                f"{signature.params[first].name!r} ({first}); a kernel runs in one"
            )
    return known[first]


def on_host(array: Any) -> Any:
    """A constant of the caller's in the memory of the processor. A buffer has no shape."""
    if _is_array(array):
        return array.get()
    if is_on_device(array):
        if isinstance(getattr(array, "mem", None), np.ndarray):
            return np.array(array.mem)
        raise TensorIRError(
            f"a constant is a {type(array).__name__}, which has no shape: pass "
            "pyopencl.array.Array(queue, shape, dtype, data=...)"
        )
    return array
