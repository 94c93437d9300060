"""Preparing constants: what a kernel computes from them is made once, and kept by the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from backends.base import Executable
from backends.c.binding import (
    CExecutable,
    Runtime,
    close_object,
    open_object,
    pack,
)
from backends.c.emit.codegen import c_name
from backends.call.allocate import Array, lasting
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.call.silent import SilentExecutable, unbound
from backends.errors import OutOfMemory


def bound_executable(
    path: Path, symbol: str, signature: Signature, runtime: Runtime, binding: Binding
) -> Executable:
    """The kernel `symbol` of the object at `path` with its constants; see CExecutable.

    Constants that the kernel reads as they are get copied: a later change of the caller's array
    must not change half of what the kernel knows. Raises OutOfMemory where memory is missing.
    """
    if binding.arrays is None:
        return SilentExecutable(unbound(signature, binding))
    made = _prepared(path, symbol, binding, binding.arrays)
    bound: dict[int, Array] = {}
    for position, param in enumerate(signature.array_params):
        if param.name in made:
            bound[position] = made[param.name]
        elif param.name in binding.arrays:
            bound[position] = _copy(binding.arrays[param.name], param.dtype)
    return CExecutable(path, symbol, signature, runtime, bound)


def _prepared(
    path: Path, symbol: str, binding: Binding, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """The packed arrays, by name."""
    if binding.function is None:
        return {}
    prepare, ahead = binding.function
    made = {p.name: lasting(ahead.shape(p, {}), p.dtype) for p in ahead.params if p.is_output}
    library = open_object(path, ahead.name)
    try:
        function = getattr(library, f"{c_name(prepare)}_packed")
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        failed = function(*pack([made.get(p.name, arrays.get(p.name)) for p in ahead.params], []))
        getattr(library, f"{symbol}_release")()  # what it kept for a second call
    finally:
        close_object(library)
    if failed:
        raise OutOfMemory(f"{ahead.name}: no memory for the workspace of the kernel")
    return made


def _copy(array: Array, dtype: str) -> Array:
    result = lasting(array.shape, dtype)
    result[...] = array
    return result
