"""Exported kernels: C that stands alone."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import Buffer, For, PrimFunc, Store, Var, const, ops, te

N, AXIS = Var("n"), Var("i")

MAIN = """
#include <stdio.h>
#include "shift.h"
int main(void) {
  float in[3] = {1, 2, 3}, out[3];
  shift(in, out, 3);
  printf("%g %g %g\\n", out[0], out[1], out[2]);
  shift_release();
  return 0;
}
"""


@pytest.fixture(scope="module")
def shift(cache):
    a, c = Buffer("A", (N,), "float32"), Buffer("C", (N,), "float32")
    body = For(AXIS, N, Store(c, (AXIS,), a[AXIS] + 1.0))
    return build(PrimFunc("shift", (a, c), (), body), cache=cache)


def test_exported_files(shift, tmp_path):
    source, header = shift.export(tmp_path / "new" / "folder")
    assert (source.name, header.name) == ("shift.c", "shift.h")
    assert source.read_text().endswith(shift.source)
    assert "_packed" not in shift.source, "what the runtime needs is not part of the kernel"
    text = header.read_text()
    assert "A: float32 array of shape [n], read" in text
    assert "C: float32 array of shape [n], written" in text
    assert "(const float *A, float *C, int64_t n);" in text


@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_program_uses_the_export(shift, tmp_path, language):
    compiler = shutil.which({"c": "gcc", "c++": "g++"}[language])
    if compiler is None:
        pytest.skip(f"no {language} compiler")
    source, _ = shift.export(tmp_path)
    main = tmp_path / ("main.c" if language == "c" else "main.cc")
    main.write_text(MAIN)
    flags = ["-O2", "-fopenmp", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-c", source, "-o", tmp_path / "shift.o"], check=True)
    objects = [main, tmp_path / "shift.o", "-o", tmp_path / "main", "-lm"]
    subprocess.run([compiler, *flags, *objects], check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout == "2 3 4\n"


def test_the_export_is_a_plain_shared_library_as_well(shift, tmp_path):
    source, _ = shift.export(tmp_path)
    path = tmp_path / "shift.so"
    subprocess.run(["gcc", "-O2", "-fopenmp", "-shared", "-fPIC", source, "-o", path], check=True)
    a, c = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    library = ctypes.CDLL(str(path))
    library.shift(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(c.ctypes.data), ctypes.c_int64(5))
    np.testing.assert_array_equal(c, a + 1)


def test_names_that_c_reserves(cache, tmp_path):
    a, c = Buffer("int", (4,), "float32"), Buffer("short", (4,), "float32")
    func = PrimFunc("remove", (a, c), (), For(AXIS, const(4), Store(c, (AXIS,), a[AXIS] * 2.0)))
    kernel = build(func, cache=cache)
    np.testing.assert_array_equal(kernel(np.ones(4, np.float32)), np.full(4, 2, np.float32))
    _, header = kernel.export(tmp_path)
    subprocess.run(["gcc", "-fsyntax-only", "-x", "c", header], check=True)


def an_input_that_nobody_reads():
    a, b = te.placeholder((20,), name="A"), te.placeholder((20,), name="B")
    return te.create_prim_func([a, b, te.compute((20,), lambda i: a[i] + 1.0, name="C")])


SILENT = {
    "an input that nobody reads": (an_input_that_nobody_reads, "c"),
    "elements of rows that nobody reads": (lambda: ops.prim_func("winograd_weights", 0), "c"),
    "parts that loads of some lanes do without": (lambda: ops.prim_func("resize2d", 0), "c"),
    "vectors that are wide": (lambda: ops.prim_func("logical_and", 0), "c -march=x86-64"),
    "threads": (lambda: ops.prim_func("softmax", 0), "c -threads=2"),
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("what", SILENT)
def test_compilers_have_nothing_to_say(what, compiler, cache, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    make, target = SILENT[what]
    func = make()
    source, _ = build(default_schedule(func, target), target, cache=cache).export(tmp_path)
    march = "x86-64" if "x86-64" in target else "native"
    flags = ["-O2", f"-march={march}", "-fopenmp", "-fwrapv", "-Wno-psabi"]  # as the header says
    warnings = ["-Wall", "-Wextra", "-Werror"]
    command = [compiler, *flags, *warnings, "-c", source, "-o", tmp_path / "kernel.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
