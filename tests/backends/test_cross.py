"""Compiling for AArch64 on another machine; what is made runs on an emulator."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from emulator import ARM, COMPILER, emulated, needs_compiler, needs_emulator

from backends import (
    BuildError,
    build,
    compiler_info,
    intrinsic_runner,
    register_intrinsic,
    resolve,
)
from backends.c import compiler as cc
from backends.c import cross
from schedule import Schedule, tensorized_matmul
from tensorir import INTRINS, Target, TensorIntrin, TensorIRError, check_intrin, reference, te

ARM_INTRINSICS = [name for name, intrin in INTRINS.items() if "arm" in intrin.needs]


def elementwise(n=37):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: te.max(te.exp(a[i]) * 2.0 - 1.0, 0.5), name="B")
    sch = Schedule(te.create_prim_func([a, b], name="elementwise"))
    sch.vectorize("i")
    return sch


def matmul(m=13, n=19, k=7):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="matmul"))
    i0, i1, j0, j1 = sch.tile("i", "j", 4, 8)
    sch.reorder(i0, j0, "k", i1, j1)
    sch.vectorize(j1)
    sch.unroll(i1)
    sch.parallel(i0)
    return sch


def softmax(rows=5, columns=23):
    a = te.placeholder((rows, columns), name="A")
    k, r = te.reduce_axis(columns, name="k"), te.reduce_axis(columns, name="r")
    top = te.compute((rows,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, r], axis=r), name="total")
    out = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="out")
    sch = Schedule(te.create_prim_func([a, out], name="softmax"))
    for block in ("e", "out"):
        sch.vectorize(sch.get_loops(block)[1])
    sch.parallel(sch.get_loops("out")[0])
    return sch


def stream(n=64):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: te.min(a[i], 3.0) + 1.0, name="B")
    sch = Schedule(te.create_prim_func([a, b], name="stream"))
    sch.vectorize("i")
    sch.stream("B", 0)
    return sch


PROGRAMS = {f.__name__: f for f in (elementwise, matmul, softmax, stream)}


@needs_compiler
def test_the_target_chooses_the_compiler():
    assert resolve(ARM).vector_bits == 128
    assert {"arm_neon", "arm_feature_dotprod"} <= set(resolve(ARM).features)
    assert compiler_info(ARM)["command"] == [COMPILER]
    assert "arm_feature_dotprod" not in resolve("c -march=armv8-a").features
    named = f"c -march=armv8-a -cc={COMPILER}"
    assert resolve(named).features == resolve("c -march=armv8-a").features
    assert str(Target.parse(named)) == named
    assert [c.name for c in cross.cross_compilers()].count(COMPILER) == 1


@needs_compiler
def test_a_kernel_for_another_machine_can_be_read_and_not_called(cache, tmp_path):
    sch = elementwise()
    kernel = build(sch, ARM, cache=cache)
    assert "__builtin_ia32" not in kernel.source
    assert "ldr\tq" in kernel.asm
    source, header = kernel.export(tmp_path)
    assert source.read_text() == kernel.source
    command = f"Compile: {COMPILER} -O2 -fno-schedule-insns -march=armv8.2-a+dotprod -fopenmp"
    assert command in header.read_text()
    for call in (kernel, kernel.time):
        with pytest.raises(
            TensorIRError, match="this machine is .*, not aarch64; .export"
        ) as error:
            call(np.zeros(37, np.float32))
        assert "elementwise was built for 'c -march=armv8.2-a+dotprod" in str(error.value)


def test_without_a_compiler_for_it(monkeypatch):
    monkeypatch.setattr(cross, "CROSS", ())
    with pytest.raises(BuildError) as error:
        resolve("c -march=armv8.4-a+sve")
    assert "does not know the processor -march=armv8.4-a+sve" in str(error.value)
    assert "apt install gcc-aarch64-linux-gnu" in str(error.value) and "-cc=" in str(error.value)


def test_a_named_compiler_that_is_not_there():
    with pytest.raises(BuildError, match="-cc=no-such-compiler, and there is no such command"):
        build(elementwise(), "c -cc=no-such-compiler")


@needs_compiler
def test_a_cross_compiler_needs_a_processor():
    with pytest.raises(BuildError, match="name the processor, as in -march=armv8.2-a"):
        resolve(f"c -cc={COMPILER}")


def test_a_named_compiler_of_this_machine(cache):
    name = cc.find_compiler().name
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not on the path")
    kernel = build(elementwise(), f"c -cc={name}", cache=cache)
    assert kernel(np.zeros(37, np.float32))[0] == np.float32(1.0)


@needs_emulator
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_the_emulator(name, cache, tmp_path):
    sch = PROGRAMS[name]()
    kernel = build(sch, ARM, cache=cache)
    assert "__builtin_ia32" not in kernel.source
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(p.const_shape).astype("float32") * 3 for p in sch.func.inputs]
    wanted = reference(sch.definition, *inputs)[0]
    found = np.full(wanted.shape, np.nan, np.float32)
    with emulated(kernel, tmp_path) as call:
        call(*inputs, found)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
        inputs[0][...] = 1.0
        call(*inputs, found)
        wanted = reference(sch.definition, *inputs)[0]
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@needs_emulator
def test_nan_and_infinity_on_the_emulator(cache, tmp_path):
    sch = elementwise(8)
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 88.0, 100.0, -104.0, 1e-40], np.float32)
    found = np.zeros(8, np.float32)
    with emulated(build(sch, ARM, cache=cache), tmp_path) as call:
        call(values, found)
    np.testing.assert_allclose(found, build(sch, cache=cache)(values), rtol=2e-6)


@needs_emulator
@pytest.mark.parametrize("name", ARM_INTRINSICS)
def test_intrinsics_of_arm_are_true(name, tmp_path):
    calls = []

    def compiled(func, intrin):
        kernel = intrinsic_runner(ARM)(func, intrin)
        manager = emulated(kernel, tmp_path / str(len(calls)))
        calls.append(manager)
        return manager.__enter__()

    try:
        check_intrin(INTRINS[name], compiled)
    finally:
        for manager in calls:
            manager.__exit__(None, None, None)


@needs_compiler
def test_an_intrinsic_for_another_machine_is_not_taken_on_trust():
    known = INTRINS["i8i8.dot_4x4"]
    mine = TensorIntrin("test.dot_4x4", known.meaning, known.source, known.needs, known.strides)
    with pytest.raises(TensorIRError, match="this machine is .*, not aarch64"):
        register_intrinsic(mine, ARM)
    with pytest.raises(TensorIRError, match="it needs arm_feature_dotprod"):
        register_intrinsic(mine, "c -march=armv8-a")
    assert "test.dot_4x4" not in INTRINS


@needs_emulator
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_dot_product_on_the_emulator(kind, cache, tmp_path):
    wide = kind.replace("8", "32")
    a = te.placeholder((3, 16), kind, name="A")
    b = te.placeholder((4, 8, 4), kind, name="B")
    r = te.reduce_axis(16, name="k")

    def term(i, j):
        return a[i, r].astype(wide) * b[r // 4, j, r % 4].astype(wide)

    c = te.compute((3, 8), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="dots"))
    k0, k1 = sch.split("k", [None, 4])
    j0, j1 = sch.split("j", [None, 4])
    sch.reorder(k0, j0, j1, k1)
    sch.decompose_reduction("C", k0)
    short = "i8i8" if kind == "int8" else "u8u8"
    sch.tensorize(j1, f"{short}.dot_4x4")
    kernel = build(sch, ARM, cache=cache)
    assert f"{'s' if kind == 'int8' else 'u'}dot v" in kernel.asm
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    rng = np.random.default_rng(0)
    inputs = [rng.integers(low, high, shape, kind, endpoint=True) for shape in ((3, 16), (4, 8, 4))]
    found = np.zeros((3, 8), wide)
    with emulated(kernel, tmp_path) as call:
        call(*inputs, found)
    np.testing.assert_array_equal(found, reference(sch.definition, *inputs)[0])
    assert "needs arm_feature_dotprod" in build(sch, "c -march=armv8-a", cache=cache).source


def product(m, n, k):
    """An int8 product by dot-product instructions; no size has to divide."""
    a, b = te.placeholder((m, k), "int8", name="A"), te.placeholder((k, n), "int8", name="B")
    r = te.reduce_axis(k, name="k")

    def term(i, j):
        return a[i, r].astype("int32") * b[r, j].astype("int32")

    c = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="product"))
    tensorized_matmul(sch, "C", "i8i8.dot_4x4")
    return sch


@needs_emulator
def test_a_packed_product_on_the_emulator(cache, tmp_path):
    sch = product(13, 17, 9)
    kernel = build(sch, ARM, cache=cache)
    assert "sdot v" in kernel.asm
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, shape, np.int8) for shape in ((13, 9), (9, 17))]
    found = np.zeros((13, 17), np.int32)
    with emulated(kernel, tmp_path) as call:
        call(*inputs, found)
    np.testing.assert_array_equal(found, reference(sch.definition, *inputs)[0])


@needs_compiler
@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_sums_stay_in_registers(kind, cache):
    """The innermost loops store and copy nothing."""
    sch = product(96, 64, 64) if kind == "int8" else tiled_outer_products()
    lines = build(sch, f"{ARM} -threads=1", cache=cache).asm.splitlines()
    instruction = re.compile(r"\t?sdot v|\tfmla\t")
    at = [i for i, line in enumerate(lines) if instruction.match(line)]
    assert len(at) == (24 if kind == "int8" else 16)
    start = max(i for i in range(at[0]) if lines[i].startswith(".L"))
    body = lines[start + 1 : at[-1]]
    assert not [line for line in body if re.match(r"\tst|\tmov\tv", line)], body


def tiled_outer_products():
    """A transposed product by f32.fmla_4x4, in tiles of 8 x 8."""
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    r = te.reduce_axis(64, name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[r, i] * b[r, j], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="outer"))
    result = sch.cache_write("C", 0)
    i0, i1, i2 = sch.split("i", [None, 2, 4])
    j0, j1, j2 = sch.split("j", [None, 2, 4])
    sch.reorder(i0, j0, "k", i1, j1, i2, j2)
    sch.reverse_compute_at(result, j0)
    sch.decompose_reduction("C", "k")
    sch.tensorize(i2, "f32.fmla_4x4")
    sch.vectorize(sch.get_loops(result)[-1])
    return sch
