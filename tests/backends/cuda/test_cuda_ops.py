"""Every operator, on the emulator against its NumPy reference, and compiled by NVRTC.

Many programs are compiled together: a text of sixty takes as long as two or three of one each.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends import CompiledKernel
from backends.build import backend_of
from backends.cuda.emulated import Emulated
from backends.cuda.emulator import Emulator
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from backends.signature import Signature
from tensorir import PrimFunc, Target, lower, ops, reference_with_tolerance
from tensorir import dtype as dt
from tensorir.arrays import decode

AT_MOST = 3
"""Examples of an operator: the first, the last and one between, of which sizes differ."""
TOGETHER = 40


def chosen() -> list[tuple[str, int]]:
    cases = []
    for name, op in ops.OPERATORS.items():
        last = len(op.examples) - 1
        numbers = {round(last * k / (AT_MOST - 1)) for k in range(AT_MOST)}
        cases += [(name, number) for number in sorted(numbers)]
    return cases


CASES = chosen()
TARGET = Target("cuda-emulator", arch="sm_80")
CONSTANTS = 1e-6
"""How far references are off where the expression has constants: those are float32."""
UNKNOWN = 1e-5
"""The bound on the error where the reference cannot give one."""


def kernels(funcs: list[PrimFunc], emulator: Emulator, lowered: list[PrimFunc]):
    backend = backend_of(TARGET.kind)
    for func, ir in zip(funcs, lowered):
        signature = Signature.of(func, ir.size_vars)
        made = Emulated(ir, signature, TARGET, emulator)
        yield CompiledKernel(
            func, ir, emulator.source, TARGET, signature, backend, made, backend.load(made)
        )


@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_operators(first, cache):
    cases = CASES[first : first + TOGETHER]
    funcs = [
        dataclasses.replace(ops.prim_func(*case), name="{}_{}_".format(*case)) for case in cases
    ]
    lowered = [lower(func, TARGET) for func in funcs]
    source = cuda_text(lowered[-1], TARGET, *lowered[:-1]).source
    emulator = Emulator(source, cache=cache)
    for (name, number), kernel in zip(cases, kernels(funcs, emulator, lowered)):
        check(name, number, kernel)
    if why_not() is None:
        arch = ("sm_80", "sm_90a")[first // TOGETHER % 2]
        for used in read_resources(compile_cubin(source, arch).log).values():
            assert not used.spills, used


def check(name: str, number: int, kernel: CompiledKernel) -> None:
    op = ops.OPERATORS[name]
    example = op.examples[number]
    arrays = example.arrays()
    results = kernel(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    expected = op.expected(example, arrays)
    assert len(results) == len(expected)
    bounds = reference_with_tolerance(kernel.func, *arrays)[1]
    for out, got, want, bound in zip(kernel.func.outputs, results, expected, bounds):
        label = f"{name} {number}: {out.name}"
        assert got.shape == want.shape, label
        if not dt.is_float(out.dtype):
            np.testing.assert_array_equal(got, want, err_msg=label)
            continue
        values, finite = decode(got, out.dtype), np.isfinite(want)
        np.testing.assert_array_equal(values[~finite], want[~finite], err_msg=label)
        allowed = np.where(np.isfinite(bound), bound, UNKNOWN) + CONSTANTS * (1 + np.abs(want))
        assert (np.abs(values[finite] - want[finite]) <= allowed[finite]).all(), label
