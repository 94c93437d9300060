"""Emitted text is compiled with all warnings as errors, and called with NumPy arrays."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends.c.emit.codegen import c_name, emit
from tensorir import Const, PrimFunc, Target
from tensorir.text.parser import parse

FLAGS = (
    "-O2 -std=gnu11 -Wall -Werror -Wno-psabi -fwrapv -fno-math-errno -fno-trapping-math "
    "-fopenmp -fPIC -shared"
).split()

Run = Callable[..., int]
TARGET = Target(vector_bits=512)


def compile_c(text: str, folder: Path, *flags: str) -> Path:
    """The shared object of a C text; fails the test with what the compiler says."""
    source = folder / f"k{len(list(folder.iterdir()))}.c"
    source.write_text(text)
    out = source.with_suffix(".so")
    command = ["gcc", *FLAGS, *(flags or ("-march=native",)), str(source), "-o", str(out), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return out


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emitted")


@pytest.fixture
def run(objects: Path) -> Run:
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
        library = ctypes.CDLL(str(compile_c(edit(emit(func, target)), objects, *flags)))
        function = getattr(library, c_name(func))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        status = function(*pointers, *map(ctypes.c_int64, sizes))
        getattr(library, f"{c_name(func)}_release")()
        return int(status)

    return run_
