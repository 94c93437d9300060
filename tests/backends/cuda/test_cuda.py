"""CUDA text of ten programs: kept to be read, run on the emulator, compiled by NVRTC."""

from __future__ import annotations

import numpy as np
import pytest
from spmd_programs import PROGRAMS

from backends import build
from backends.call.allocate import empty
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from tensorir import Target, TensorIRError, te
from tensorir.text.parser import parse

TARGET = Target("cuda", arch="sm_90a")


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(golden, name):
    source = cuda_text(parse(PROGRAMS[name].text), TARGET).source
    golden(source.partition("#endif\n")[2].lstrip("\n"), f"{name}.cu")


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(emulated, name):
    program = PROGRAMS[name]
    kernel = emulated(program.text)
    arrays = program.arrays(np.random.default_rng(1))
    expected = program.expected(*(array.copy() for array in arrays))
    results = kernel(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("target", ["cuda-emulator", "cuda-emulator -check=bounds"])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0, 2), (7, 1)], ids=str)
def test_extents_of_zero_and_one(cache, shape, target):
    """As numbers, and as a size that a call tells."""
    a = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    for dims in (shape, (te.var("n"), *shape[1:])):
        x = te.placeholder(dims, name="A")
        c = te.compute(dims, lambda *i, x=x: x[i] * 2 + 1, name="C")
        kernel = build(te.create_prim_func([x, c], name="f"), target, cache=cache)
        np.testing.assert_array_equal(kernel(a), a * 2 + 1)


def test_sums_of_nothing_and_results_without_dimensions(cache):
    n = te.var("n")
    a, k = te.placeholder((n, 4), name="A"), te.reduce_axis(n, name="k")
    c = te.compute((4,), lambda i: te.sum(a[k, i], axis=k), name="C")
    kernel = build(te.create_prim_func([a, c], name="columns"), "cuda-emulator", cache=cache)
    for count in (0, 1, 5):
        assert kernel(np.ones((count, 4), "f4")).tolist() == [count] * 4
    with pytest.raises(TensorIRError, match="not C-contiguous"):
        kernel(np.ones((4, 8), "f4")[:, ::2])
    b, r = te.placeholder((5,), name="B"), te.reduce_axis(5, name="r")
    total = te.compute((), lambda: te.sum(b[r], axis=r), name="S")
    kernel = build(te.create_prim_func([b, total], name="total"), "cuda-emulator", cache=cache)
    assert kernel(np.arange(5, dtype="f4")) == 10


def test_vectors_need_arrays_that_begin_at_a_multiple(emulated):
    kernel = emulated(PROGRAMS["matmul"].text)
    raw = np.zeros(4096 + 64, "f4")
    start = -raw.ctypes.data % 64 // 4
    good, odd = raw[start : start + 4096], raw[start + 1 : start + 4097]
    b, c = empty((4096,), "float32"), empty((4096,), "float32")
    kernel(good, b, c)
    with pytest.raises(TensorIRError, match="'A' is accessed by vectors of 16 bytes and begins 4"):
        kernel(odd, b, c)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_they_compile_for_gpus(arch):
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    for program in PROGRAMS.values():
        text = cuda_text(parse(program.text), Target("cuda", arch=arch)).source
        for used in read_resources(compile_cubin(text, arch).log).values():
            assert not used.spills and not used.warnings
            assert 0 < used.registers <= 64
