"""Launches of kernels: what they are given, checked, in the form that the runtime takes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.cuda.emulator.signature import Parameter
from tensorir import TensorIRError

Size = int | tuple[int, ...]

MOST_THREADS = 1024
MOST_THREADS_Z = 64
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_SHARED = 227 * 1024
"""The limits of current GPUs; those of one architecture are the backend's to check."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    grid    blocks along x, y, z
    block   threads of a block along x, y, z
    args    arrays and numbers, as many as the kernel has parameters
    shared  bytes of shared memory
    """

    kernel: str
    grid: Size
    block: Size
    args: Sequence[Any]
    shared: int = 0


class CBuffer(ctypes.Structure):
    """ti_buffer of interface.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("elements", ctypes.c_longlong),
        ("itemsize", ctypes.c_int),
        ("shared", ctypes.c_int),
        ("given", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("cells", ctypes.c_void_p),
        ("granule", ctypes.c_int),
    )


class CLaunch(ctypes.Structure):
    """ti_launch of launch.h."""

    _fields_ = (
        ("serial", ctypes.c_longlong),
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_int),
        ("checks", ctypes.c_int),
        ("seed", ctypes.c_ulonglong),
        ("workers", ctypes.c_int),
        ("report_file", ctypes.c_int),
        ("report", ctypes.c_void_p),
        ("report_size", ctypes.c_int),
    )


def sizes_of(launch: Launch) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The grid and the block of a launch, in three dimensions.

    Raises TensorIRError for sizes that no GPU launches.
    """
    grid, block = _three(launch.grid), _three(launch.block)
    problem = None
    if min(*grid, *block) < 1:
        problem = "every size has to be 1 or more"
    elif math.prod(block) > MOST_THREADS or block[2] > MOST_THREADS_Z:
        problem = f"a block has {MOST_THREADS} threads at most, and {MOST_THREADS_Z} along z"
    elif any(have > most for have, most in zip(grid, MOST_BLOCKS)):
        problem = f"a grid has {MOST_BLOCKS} blocks at most"
    elif not 0 <= launch.shared <= MOST_SHARED:
        problem = f"a block has {MOST_SHARED} bytes of shared memory at most, not {launch.shared}"
    if problem is not None:
        raise TensorIRError(
            f"kernel {launch.kernel} with a grid of {grid} and blocks of {block}: {problem}"
        )
    return grid, block


def check_arguments(launch: Launch, parameters: Sequence[Parameter]) -> None:
    """Raise TensorIRError where arguments are not what the kernel takes."""
    if len(launch.args) != len(parameters):
        raise TensorIRError(
            f"kernel {launch.kernel} takes {len(parameters)} arguments, not {len(launch.args)}"
        )
    for value, parameter in zip(launch.args, parameters):
        if parameter.is_array:
            _check_array(value, parameter, launch.kernel)
        elif isinstance(value, np.ndarray):
            raise TensorIRError(
                f"kernel {launch.kernel}: {parameter.name} is a number, not an array"
            )


def c_arguments(
    launch: Launch, parameters: Sequence[Parameter]
) -> tuple[ctypes.Array[ctypes.c_void_p], list[Any]]:
    """The addresses of the arguments, and what has to be kept until the launch is done."""
    addresses = (ctypes.c_void_p * max(1, len(parameters)))()
    kept: list[Any] = []
    for i, (value, parameter) in enumerate(zip(launch.args, parameters)):
        if parameter.is_array:
            kept.append(CBuffer(value.ctypes.data, value.size, value.itemsize))
            addresses[i] = ctypes.addressof(kept[-1])
        else:
            kept.append(np.array(value, parameter.dtype))
            addresses[i] = kept[-1].ctypes.data
    return addresses, kept


def _check_array(value: Any, parameter: Parameter, kernel: str) -> None:
    problem = None
    if not isinstance(value, np.ndarray):
        problem = f"is {type(value).__name__}, and has to be a NumPy array"
    elif value.dtype.itemsize != parameter.dtype.itemsize:
        problem = f"has elements of {value.dtype}, not of {parameter.dtype}"
    elif not value.flags.c_contiguous:
        problem = "is not contiguous"
    elif not parameter.is_constant and not value.flags.writeable:
        problem = "is read-only, and the kernel may write it"
    if problem is not None:
        raise TensorIRError(f"kernel {kernel}: the array {parameter.name} {problem}")


def _three(size: Size) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*given, 1, 1)[:3]
    return int(x), int(y), int(z)
