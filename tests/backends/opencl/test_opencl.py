"""OpenCL: texts for all operators on any machine, and their results where there is a device."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import spmd_programs
from operator_examples import check, chosen

from backends import BuildError, CompiledKernel, build, build_source
from backends.build import backend_of
from backends.call.signature import Signature
from backends.opencl.device import find_device, why_no_device
from backends.opencl.program import CompiledOpenCL, build_program
from backends.opencl.text import opencl_text
from tensorir import Target, TensorIRError, lower, ops, parse, te

TARGET = Target("opencl")
TOGETHER = 40
PARTS = 2
"""One in so many of the cases runs: each second of the device's compiler counts."""


def compilable(name: str) -> bool:
    return name not in ("sort", "argsort", "topk")  # extern functions that call themselves


CASES = [case for case in chosen() if compilable(case[0])]

with_device = pytest.mark.skipif(why_no_device() is not None, reason=why_no_device() or "")


def lowered(cases):
    funcs = [
        dataclasses.replace(ops.prim_func(*case), name="{}_{}_".format(*case)) for case in cases
    ]
    return funcs, [lower(func, TARGET) for func in funcs]


def test_every_operator_has_a_text():
    funcs, programs = lowered(CASES)
    text = opencl_text(programs[-1], TARGET, *programs[:-1])
    assert len(re.findall(r"__kernel ", text)) >= len(funcs)
    assert not re.search(r"__builtin_|_Bool|reinterpret_cast|__device__|threadIdx", text)


@with_device
@pytest.mark.parametrize("first", range(0, len(CASES[::PARTS]), TOGETHER))
def test_operators(first):
    cases = CASES[::PARTS][first : first + TOGETHER]
    funcs, programs = lowered(cases)
    source = opencl_text(programs[-1], TARGET, *programs[:-1])
    program = build_program(find_device(), source, "operators")
    backend = backend_of("opencl")
    for (name, number), func, ir in zip(cases, funcs, programs):
        signature = Signature.of(func, ir.size_vars)
        made = CompiledOpenCL(ir, signature, program, "")
        kernel = CompiledKernel(
            func, ir, source, TARGET, signature, backend, made, backend.load(made)
        )
        check(name, number, kernel)


PROGRAMS = {
    name: program
    for name, program in vars(spmd_programs).items()
    if isinstance(program, spmd_programs.Program) and "exchange(" not in program.text
}


@with_device
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_threads(name):
    program = PROGRAMS[name]
    func = parse(program.text)
    kernel = build_source(func, opencl_text(func, TARGET), TARGET)
    arrays = program.arrays(np.random.default_rng(0))
    want = program.expected(*[a.copy() for a in arrays])
    kernel(*arrays)
    outputs = [a for a, p in zip(arrays, func.params) if p in func.outputs]
    for got, value in zip(outputs, want, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)


def scaled(dtype="float32"):
    n = te.var("n")
    a = te.placeholder((n,), dtype, name="A")
    return te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2, name="B")])


def test_without_a_device_there_is_a_source_and_a_reason(monkeypatch):
    message = "pyopencl finds no device: pip install pyopencl"
    monkeypatch.setattr("backends.opencl.backend.why_no_device", lambda: message)
    kernel = build(scaled(), "opencl")
    assert "__kernel" in kernel.source and kernel.resources is None
    with pytest.raises(TensorIRError, match="finds no device: pip install pyopencl"):
        kernel(np.ones(3, np.float32))


def test_there_is_no_header_and_no_assembly(tmp_path):
    kernel = build(scaled(), "opencl")
    with pytest.raises(BuildError, match="OpenCL shows no assembly"):
        _ = kernel.asm
    with pytest.raises(BuildError, match="has no header"):
        kernel.export(tmp_path)


@with_device
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_symbolic_sizes(size):
    kernel = build(scaled(), "opencl")
    array = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(kernel(array), array * 2)
    out = np.empty_like(array)
    kernel(array, out)
    np.testing.assert_array_equal(out, array * 2)


@with_device
def test_constants_stay_on_the_device():
    a = te.placeholder((4, 6), name="A")
    w = te.placeholder((6, 5), name="W")
    k = te.reduce_axis(6, name="k")
    v = te.compute((6, 5), lambda i, j: w[i, j] * w[i, j], name="V")
    c = te.compute((4, 5), lambda i, j: te.sum(a[i, k] * v[k, j], axis=k), name="C")
    rng = np.random.default_rng(0)
    x, y = rng.random((4, 6), np.float32), rng.random((6, 5), np.float32)
    kernel = build(te.create_prim_func([a, w, c]), "opencl", constants={"W": y.copy()})
    y_before = y.copy()
    np.testing.assert_allclose(kernel(x), x @ (y_before * y_before), rtol=1e-5)


@with_device
def test_a_program_all_of_whose_kernels_prepare_constants():
    """A batch of no rows: what is left runs no kernel, and its text has those of the constants."""
    a, w = te.placeholder((0, 6), name="A"), te.placeholder((6, 5), name="W")
    k = te.reduce_axis(6, name="k")
    v = te.compute((6, 5), lambda i, j: w[i, j] * w[i, j], name="V")
    c = te.compute((0, 5), lambda i, j: te.sum(a[i, k] * v[k, j], axis=k), name="C")
    weights = np.ones((6, 5), np.float32)
    kernel = build(te.create_prim_func([a, w, c], name="f"), "opencl", constants={"W": weights})
    assert re.findall(r"void (\w+)\(", kernel.source) == ["f_prepare_0"]
    x = np.ones((0, 6), np.float32)
    assert kernel(x).shape == (0, 5)
    assert kernel.time(x, repeats=2, min_ms=0.01).median >= 0
    prepared = kernel._executable._here._bound.values()
    assert [buffer.size for buffer in prepared] == [6 * 5 * 4]


@with_device
def test_a_source_that_does_not_compile_is_shown():
    func = lower(scaled(), TARGET)
    with pytest.raises(BuildError, match="refuses the source") as error:
        build_source(func, "__kernel void nonsense(", TARGET)
    assert "nonsense" in (error.value.source or "")


@with_device
def test_read_only_inputs_and_arguments_that_do_not_fit():
    kernel = build(scaled(), "opencl")
    array = np.ones(5, np.float32)
    array.flags.writeable = False
    np.testing.assert_array_equal(kernel(array), array * 2)
    with pytest.raises(TensorIRError, match="A"):
        kernel(np.ones(5, np.float64))


@with_device
def test_too_many_threads_are_refused_with_numbers():
    threads = find_device().threads_per_block + 1
    func = parse(f"""
        @prim_func
        def f(A: f32[{threads}], B: f32[{threads}]):
            for t in thread("threadIdx.x", {threads}):
                B[t] = A[t]
    """)
    with pytest.raises(BuildError, match=f"{threads} threads, and a block has at most"):
        build_source(func, opencl_text(func, TARGET), TARGET)


@with_device
@pytest.mark.parametrize("threads", [7, 32, 100, 256])
def test_reductions_by_threads_meet_in_memory(threads):
    rounds = -(-64 // threads)
    func = parse(f"""
        @prim_func
        def rows(A: f32[5, 64], B: f32[5]):
            for i in thread("blockIdx.x", 5):
                for t in thread("threadIdx.x", {threads}):
                    for k in range({rounds}):
                        with block("B"):
                            vi = spatial(5, i)
                            vk = reduce(64, k * {threads} + t)
                            where(k * {threads} + t < 64)
                            with init():
                                B[vi] = 0.0
                            B[vi] = B[vi] + A[vi, vk]
    """)
    array = np.random.default_rng(0).integers(0, 9, (5, 64)).astype(np.float32)
    np.testing.assert_array_equal(build(func, "opencl")(array), array.sum(1))
