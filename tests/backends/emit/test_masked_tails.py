"""Masked tails in compiled code: nothing behind the arrays is touched, and the values are right."""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
import shutil
import subprocess

import numpy as np
import pytest

from autotune import default_schedule, examples
from backends import build, resolve
from schedule import Schedule
from tensorir import Target, interpret, lower, te
from tensorir.passes.masked_tails import has_masks

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or not has_masks(resolve(Target("c"))),
    reason="needs masked loads and stores (AVX-512)",
)

PAGE = mmap.PAGESIZE


class Guarded:
    """Arrays that end where memory ends: the page behind each may not be touched."""

    def __init__(self) -> None:
        self.kept: list[mmap.mmap] = []

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        whole = -(-max(size, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, whole + PAGE)
        self.kept.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        behind = ctypes.c_void_p(start + whole)
        assert protect(behind, ctypes.c_size_t(PAGE), 0) == 0
        array = np.frombuffer(memory, dtype, int(np.prod(shape)), whole - size).reshape(shape)
        return array


def rows(columns, dtype, lanes=16):
    a = te.placeholder((5, columns), dtype, name="A")
    b = te.compute((5, columns), lambda i, j: a[i, j] + a[i, j], name="B")
    sch = Schedule(te.create_prim_func([a, b], name="rows"))
    sch.split("j", [None, lanes])
    sch.vectorize("j_1")
    return sch


@pytest.mark.parametrize("columns", [1, 3, 7, 13, 31, 100])
@pytest.mark.parametrize(
    "dtype, lanes",
    [("float32", 16), ("float64", 8), ("int8", 64), ("int16", 32), ("int32", 16), ("int64", 8)],
)
def test_no_page_behind_the_arrays_is_touched(columns, dtype, lanes):
    guarded = Guarded()
    a, b = (guarded.array((5, columns), dtype) for _ in "ab")
    a[:] = np.arange(a.size).reshape(a.shape) % 50
    build(rows(columns, dtype, lanes), "c -threads=1")(a, b)
    np.testing.assert_array_equal(b, a + a)


@pytest.mark.parametrize("columns", [3, 13, 30])
def test_no_element_beside_the_output_is_changed(columns):
    buffer = np.full(5 * columns + 128, 7, "float32")
    out = buffer[64 : 64 + 5 * columns].reshape(5, columns)
    a = np.random.default_rng(0).normal(size=out.shape).astype("float32")
    build(rows(columns, "float32"), "c -threads=1")(a, out)
    np.testing.assert_array_equal(out, a + a)
    assert (buffer[:64] == 7).all() and (buffer[64 + 5 * columns :] == 7).all()


def test_symbolic_columns_have_no_loop_over_elements():
    kernel = build(rows(te.size_var("n"), "float32"), "c -threads=1")
    assert kernel.source.count("store_first_f32x16(first") == 1
    guarded = Guarded()
    for n in (0, 1, 5, 16, 17, 47):
        a, b = (guarded.array((5, n), "float32") for _ in "ab")
        a[:] = np.arange(a.size).reshape(a.shape)
        kernel(a, b)
        np.testing.assert_array_equal(b, a + a)


def row_sums(columns):
    a, k = te.placeholder((3, columns), name="A"), te.reduce_axis(columns, name="k")
    b = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, b], name="row_sums"))
    sch.split("k", [None, 16])
    sch.rfactor("B", "k_1")
    sch.compute_at("B_rf", "i_B")
    sch.reorder("k_0", "k_1")
    sch.decompose_reduction("B_rf", "k_0")
    sch.vectorize("k_1")
    sch.vectorize("k_1_init")
    return sch


@pytest.mark.parametrize("columns", [17, 30, 314])
def test_sums_in_lanes(columns):
    guarded = Guarded()
    a, b = guarded.array((3, columns), "float32"), guarded.array((3,), "float32")
    a[:] = np.random.default_rng(0).integers(-9, 9, a.shape)
    kernel = build(row_sums(columns), "c -threads=1")
    kernel(a, b)
    np.testing.assert_array_equal(b, a.sum(1))
    if columns % 16 & (columns % 16 - 1):
        assert "first_f32x16(" in kernel.source, "the accumulators keep their other lanes"


def matmul(columns):
    a, b = te.placeholder((7, 33), name="A"), te.placeholder((33, columns), name="B")
    k = te.reduce_axis(33, name="k")
    c = te.compute((7, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="matmul"))
    sch.split("i", [None, 3])
    sch.split("j", [None, 2, 16])
    sch.reorder("j_0", "i_0", "k", "i_1", "j_1", "j_2")
    sch.cache_write("C", "C", "local")
    sch.reverse_compute_at("C_local", "i_0")
    sch.decompose_reduction("C", "k")
    sch.split("ax1", [None, 16])
    for loop in ("j_2", "j_2_init", "ax1_1"):
        sch.vectorize(loop)
    for loop in ("i_1", "j_1", "i_1_init", "j_1_init", "ax0"):
        sch.unroll(loop)
    return sch


@pytest.mark.parametrize("columns", [30, 46, 63])
def test_register_tiles(columns):
    guarded = Guarded()
    shapes = ((7, 33), (33, columns), (7, columns))
    a, b, c = (guarded.array(shape, "float32") for shape in shapes)
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-5, 5, a.shape), rng.integers(-5, 5, b.shape)
    kernel = build(matmul(columns), "c -threads=1")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    assert re.search(r"f32x16 C_local\w*\[", kernel.source), "the tile is made of whole vectors"
    lowered = lower(matmul(columns).func, resolve(Target("c")))
    (seen,) = interpret(lowered, a.ravel(), b.ravel())
    np.testing.assert_array_equal(seen, (a @ b).ravel())


@pytest.mark.parametrize("columns", [127, 111, 47])
def test_the_last_tile_of_a_row_needs_no_blend(columns):
    """It has the rows of the other tiles, and nothing reads what lies behind its own columns."""
    guarded = Guarded()
    shapes = ((12, 9), (9, columns), (12, columns))
    a, b, c = (guarded.array(shape, "float32") for shape in shapes)
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-5, 5, a.shape), rng.integers(-5, 5, b.shape)
    schedule = default_schedule(examples.matmul(12, columns, 9), "c -vector_bits=512")
    kernel = build(schedule, "c -threads=1 -vector_bits=512")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    assert "store_first_f32x16(" in kernel.source and " first_f32x16(" not in kernel.source


@pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")
def test_the_assembly_has_masked_moves(tmp_path):
    kernel = build(rows(13, "float32"), "c -threads=1 -march=x86-64-v4")
    command = "gcc -O2 -std=gnu11 -Wall -Werror -Wno-psabi -march=x86-64-v4 -S -o - -x c -"
    done = subprocess.run(command.split(), input=kernel.source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"vmovups\s+\(.*\), %zmm\d+\{%k\d\}\{z\}", done.stdout)
    assert re.search(r"vmovups\s+%zmm\d+, .*\{%k\d\}", done.stdout)
    assert not re.search(r"\sv?movss\s", done.stdout)


def test_nothing_warns(tmp_path):
    command = "gcc -O2 -std=gnu11 -Wall -Werror -Wno-psabi -fno-math-errno -march=native -c -x c -"
    for sch in (matmul(30), row_sums(30)):
        text = build(sch, "c -threads=1").source
        line = [*command.split(), "-o", str(tmp_path / "k.o")]
        done = subprocess.run(line, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
