"""On a GPU: the programs of test_cuda.py and the operators, with arrays of CuPy."""

from __future__ import annotations

import numpy as np
import pytest
from spmd_programs import PROGRAMS

from backends import build, build_source, resolve
from backends.cuda.devices import why_no_device
from backends.cuda.text import cuda_text
from tensorir import dtype as dt
from tensorir import ops, reference_with_tolerance, te
from tensorir.arrays import decode
from tensorir.text.parser import parse

WHY_NOT = why_no_device("sm_80")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, cache):
    import cupy

    program, target = PROGRAMS[name], resolve("cuda")
    func = parse(program.text)
    kernel = build_source(func, cuda_text(func, target).source, target, cache=cache)
    arrays = program.arrays(np.random.default_rng(1))
    expected = program.expected(*(array.copy() for array in arrays))
    results = kernel(*map(cupy.asarray, arrays))
    results = results if isinstance(results, tuple) else (results,)
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(cupy.asnumpy(result), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_operators(name, cache):
    import cupy

    op = ops.OPERATORS[name]
    example = op.examples[-1]
    func = ops.prim_func(name, len(op.examples) - 1)
    arrays = example.arrays()
    results = build(func, "cuda", cache=cache)(*map(cupy.asarray, arrays))
    results = results if isinstance(results, tuple) else (results,)
    bounds = reference_with_tolerance(func, *arrays)[1]
    for out, got, want, bound in zip(func.outputs, results, op.expected(example, arrays), bounds):
        values = cupy.asnumpy(got)
        if not dt.is_float(out.dtype):
            np.testing.assert_array_equal(values, want)
            continue
        values, finite = decode(values, out.dtype), np.isfinite(want)
        allowed = np.where(np.isfinite(bound), bound, 1e-5) + 1e-6 * (1 + np.abs(want))
        assert (np.abs(values[finite] - want[finite]) <= allowed[finite]).all()


def test_a_call_is_captured_into_a_graph(cache):
    import cupy

    a = te.placeholder((1000,), name="A")
    c = te.compute((1000,), lambda i: a[i] * 2, name="C")
    kernel = build(te.create_prim_func([a, c], name="twice"), "cuda", cache=cache)
    x, out = cupy.arange(1000, dtype="float32"), cupy.zeros(1000, "float32")
    kernel(x, out)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        kernel(x, out)
        graph = stream.end_capture()
    x += 1
    cupy.cuda.Device().synchronize()
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(out), 2 * (np.arange(1000) + 1))


def test_a_failed_launch_names_its_kernel(cache):
    """More shared memory than its launch may have: the driver refuses it."""
    import cupy

    from tensorir import TensorIRError

    target = resolve("cuda")
    func = parse(PROGRAMS["scale"].text)
    kernel = build_source(func, cuda_text(func, target).source, target, cache=cache)
    x = cupy.zeros(301, "float32")
    program = kernel._program.on(0)
    broken = program._functions
    program._functions = {name: 0 for name in broken}
    with pytest.raises(TensorIRError, match="kernel 'scale_0' could not be launched"):
        kernel(x)
    program._functions = broken
    kernel(x)
