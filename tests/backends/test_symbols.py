"""Kernels may be called anything: functions of the C library, of Python, words of the emitter."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from backends import build
from backends.emit.c_library import in_c_library
from backends.emit.names import c_identifier, symbol
from tensorir import te

NAMES = (
    "clock", "read", "abs", "poll", "stat", "pthread_create", "omp_get_thread_num", "register",
    "main", "i32", "LOAD", "PyLong_FromLong",
)  # fmt: skip


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def program(name):
    x, k = te.placeholder((5, 40), name="x"), te.reduce_axis(40, "k")
    y = te.compute((5,), lambda i: te.sum(te.exp(x[i, k]) + 1.0, axis=k), name="y")
    return te.create_prim_func([x, y], name=name)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_of_any_name_is_built_and_called(name):
    x = np.linspace(-1, 1, 200, dtype="float32").reshape(5, 40)
    kernel = build(program(name), "c -threads=1")
    assert kernel.name == name
    np.testing.assert_allclose(kernel(x), (np.exp(x) + 1).sum(1), rtol=1e-5)


def test_no_symbol_is_one_of_the_c_library_of_this_machine():
    listed = ""
    for library in ("libc.so.6", "libm.so.6"):
        path = output("gcc", f"-print-file-name={library}").strip()
        listed += output("nm", "-D", "--defined-only", path)
    names = {m[1] for m in re.finditer(r" [TWiBDV] ([a-z]\w*)", listed)}
    assert len(names) > 2000
    assert sorted(n for n in names if symbol(n) == n) == []


@pytest.mark.parametrize("name", [*NAMES, "lgammaf_r", "x_", "_", "9", "a b", "f32x4", "omp_x_"])
def test_an_identifier_stays_as_it_is(name):
    once = symbol(name)
    assert symbol(once) == once == c_identifier(once)


def test_usual_names_are_kept():
    for name in ("matmul", "softmax", "conv2d", "layer_norm", "f", "kernel", "relu", "out"):
        assert symbol(name) == name
        assert not in_c_library(name)
