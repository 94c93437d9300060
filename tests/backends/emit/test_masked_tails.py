"""Masked tails in compiled code: nothing behind the arrays is touched, and the values are right."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

import numpy as np
import pytest
from guarded import Guarded

from autotune import default_schedule, examples
from backends import BuildError, build, resolve, why_not_here
from schedule import Schedule
from tensorir import interpret, lower, masked_bits, te


def runs_here(march):
    try:
        return why_not_here(f"c -march={march}") is None
    except BuildError:  # a processor of another kind
        return False


MARCHES = [march for march in ("x86-64-v4", "x86-64-v3", "x86-64") if runs_here(march)]
"""Masks that are bits, masks that are vectors, and none: each must run on this machine too."""

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or "x86-64-v3" not in MARCHES,
    reason="needs masked loads and stores (AVX2)",
)
needs_bits = pytest.mark.skipif("x86-64-v4" not in MARCHES, reason="needs masks of bits (AVX-512)")


def rows(columns, dtype, lanes=16):
    a = te.placeholder((5, columns), dtype, name="A")
    b = te.compute((5, columns), lambda i, j: a[i, j] + a[i, j], name="B")
    sch = Schedule(te.create_prim_func([a, b], name="rows"))
    sch.split("j", [None, lanes])
    sch.vectorize("j_1")
    return sch


@pytest.mark.sampled(3)
@pytest.mark.parametrize("march", MARCHES[:-1])
@pytest.mark.parametrize("columns", [1, 3, 7, 13, 31, 100])
@pytest.mark.parametrize(
    "dtype, lanes",
    [("float32", 16), ("float64", 8), ("int8", 64), ("int16", 32), ("int32", 16), ("int64", 8)],
)
def test_no_page_behind_the_arrays_is_touched(columns, dtype, lanes, march):
    guarded = Guarded()
    a, b = (guarded.array((5, columns), dtype) for _ in "ab")
    a[:] = np.arange(a.size).reshape(a.shape) % 50
    build(rows(columns, dtype, lanes), f"c -threads=1 -march={march}")(a, b)
    np.testing.assert_array_equal(b, a + a)


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("columns", [3, 13, 30])
def test_no_element_beside_the_output_is_changed(columns, march):
    buffer = np.full(5 * columns + 128, 7, "float32")
    out = buffer[64 : 64 + 5 * columns].reshape(5, columns)
    a = np.random.default_rng(0).normal(size=out.shape).astype("float32")
    build(rows(columns, "float32"), f"c -threads=1 -march={march}")(a, out)
    np.testing.assert_array_equal(out, a + a)
    assert (buffer[:64] == 7).all() and (buffer[64 + 5 * columns :] == 7).all()


@pytest.mark.parametrize("march, lanes", [("x86-64-v4", 16), ("x86-64-v3", 8)])
def test_symbolic_columns_have_no_loop_over_elements(march, lanes):
    if march not in MARCHES:
        pytest.skip("another processor")
    kernel = build(rows(te.size_var("n"), "float32", lanes), f"c -threads=1 -march={march}")
    assert kernel.source.count(f"store_first_f32x{lanes}(first") == 1
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


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("columns", [17, 30, 314])
def test_sums_in_lanes(columns, march):
    guarded = Guarded()
    a, b = guarded.array((3, columns), "float32"), guarded.array((3,), "float32")
    a[:] = np.random.default_rng(0).integers(-9, 9, a.shape)
    target = resolve(f"c -threads=1 -march={march}")
    kernel = build(row_sums(columns), target)
    kernel(a, b)
    np.testing.assert_array_equal(b, a.sum(1))
    lanes = target.lanes()
    if masked_bits(target) and columns % lanes & (columns % lanes - 1):
        assert f"first_f32x{lanes}(" in kernel.source, "the accumulators keep their other lanes"


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


@pytest.mark.parametrize("march, lanes", [("x86-64-v4", 16), ("x86-64-v3", 8)])
@pytest.mark.parametrize("columns", [30, 46, 63])
def test_register_tiles(columns, march, lanes):
    if march not in MARCHES:
        pytest.skip("another processor")
    guarded = Guarded()
    shapes = ((7, 33), (33, columns), (7, columns))
    a, b, c = (guarded.array(shape, "float32") for shape in shapes)
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-5, 5, a.shape), rng.integers(-5, 5, b.shape)
    target = resolve(f"c -threads=1 -march={march}")
    kernel = build(matmul(columns), target)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    whole = rf"f32x{lanes} C_local\w*[\[,]"
    assert re.search(whole, kernel.source), "the tile is made of whole vectors"
    lowered = lower(matmul(columns).func, target)
    (seen,) = interpret(lowered, a.ravel(), b.ravel())
    np.testing.assert_array_equal(seen, (a @ b).ravel())


@needs_bits
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


@pytest.mark.parametrize("columns", [13, 15, 63])
@pytest.mark.parametrize("march", MARCHES)
def test_special_values_of_a_tail(columns, march):
    """NaN, inf and subnormals of the lanes that count, next to memory full of NaN that does not."""
    a = te.placeholder((3, columns), name="A")
    b = te.compute((3, columns), lambda i, j: te.max(te.exp(a[i, j]), 0.5), name="B")
    sch = Schedule(te.create_prim_func([a, b], name="special"))
    sch.split("j", [None, 16])
    sch.vectorize("j_1")
    filled = np.full(3 * columns + 64, np.nan, "float32")
    x = filled[32 : 32 + 3 * columns].reshape(3, columns)
    x[:] = np.resize(np.float32([np.nan, np.inf, -np.inf, 1e-40, -0.0, 88, -104, 1]), x.shape)
    out = build(sch, f"c -threads=1 -march={march}")(x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out, np.maximum(np.exp(x), 0.5), rtol=1e-6)


@pytest.mark.parametrize("dtype, lanes", [("float64", 4), ("float32", 4), ("int64", 4)])
def test_masked_moves_of_registers_of_both_sizes(dtype, lanes):
    """AVX2 has them for 128 bits too: four float32 of a row beside float64 of another."""
    guarded = Guarded()
    a, b = (guarded.array((5, 7), dtype) for _ in "ab")
    a[:] = np.arange(35).reshape(a.shape) - 9
    kernel = build(rows(7, dtype, lanes), "c -threads=1 -march=x86-64-v3")
    kernel(a, b)
    np.testing.assert_array_equal(b, a + a)
    assert f"x{lanes}(first" in kernel.source


@pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")
def test_the_assembly_has_masks_that_are_vectors():
    kernel = build(rows(13, "float32", 8), "c -threads=1 -march=x86-64-v3")
    command = "gcc -O2 -std=gnu11 -Wall -Werror -Wno-psabi -march=x86-64-v3 -S -o - -x c -"
    done = subprocess.run(command.split(), input=kernel.source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"vmaskmovps\s+\(?.*, %ymm\d+, %ymm\d+", done.stdout)
    assert re.search(r"vmaskmovps\s+%ymm\d+, %ymm\d+, ", done.stdout)
    assert not re.search(r"\sv?movss\s", done.stdout)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")
def test_the_assembly_has_masked_moves(tmp_path):
    kernel = build(rows(13, "float32"), "c -threads=1 -march=x86-64-v4")
    command = "gcc -O2 -std=gnu11 -Wall -Werror -Wno-psabi -march=x86-64-v4 -S -o - -x c -"
    done = subprocess.run(command.split(), input=kernel.source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"vmovups\s+\(.*\), %zmm\d+\{%k\d\}\{z\}", done.stdout)
    assert re.search(r"vmovups\s+%zmm\d+, .*\{%k\d\}", done.stdout)
    assert not re.search(r"\sv?movss\s", done.stdout)


@pytest.mark.parametrize("march", MARCHES)
def test_nothing_warns(march, tmp_path):
    command = "gcc -O2 -std=gnu11 -Wall -Werror -Wno-psabi -fno-math-errno -c -x c -"
    command += f" -march={march}"
    for sch in (matmul(30), row_sums(30)):
        text = build(sch, f"c -threads=1 -march={march}").source
        line = [*command.split(), "-o", str(tmp_path / "k.o")]
        done = subprocess.run(line, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
