"""Emitted text is compiled with all warnings as errors, and called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from backends import ObjectCache
from backends.c.emit.codegen import c_name, emit
from tensorir import Const, PrimFunc, Target
from tensorir.text.parser import parse
from tests.backends.by_gcc import made_by_gcc

FLAGS = (
    "-O2 -std=gnu11 -Wall -Werror -Wno-psabi -fwrapv -fno-math-errno -fno-trapping-math "
    "-fopenmp -fPIC -shared"
).split()

Run = Callable[..., int]
TARGET = Target(vector_bits=512)


@pytest.fixture(scope="session")
def library(cache: ObjectCache) -> Callable[..., ctypes.CDLL]:
    """library(text, *flags): the functions of a C text."""

    def loaded(text: str, *flags: str) -> ctypes.CDLL:
        return ctypes.CDLL(str(made_by_gcc(cache, text, *FLAGS, *(flags or ("-march=native",)))))

    return loaded


@pytest.fixture
def run(library: Callable[..., ctypes.CDLL]) -> Run:
    """run(program, *arrays, sizes): emit, compile and call; the program is IR or its text."""

    def run_(
        program: PrimFunc | str,
        *arrays: np.ndarray,
        sizes: tuple[int, ...] = (),
        target: Target = TARGET,
        flags: tuple[str, ...] = (),
        edit: Callable[[str], str] = str,
    ) -> int:
        func = parse(program) if isinstance(program, str) else program
        assert len(arrays) == len(func.params) and len(sizes) == len(func.size_vars)
        for param, array in zip(func.params, arrays):
            assert array.flags.c_contiguous
            extent = param.shape[0]
            assert not isinstance(extent, Const) or extent.value == array.size
        functions = library(edit(emit(func, target)), *flags)
        function = getattr(functions, c_name(func))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        status = function(*pointers, *map(ctypes.c_int64, sizes))
        getattr(functions, f"{c_name(func)}_release")()
        return int(status)

    return run_
