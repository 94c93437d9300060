"""cuda-emulator -check=...: emitted text under each check, and what a call does with a report."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from spmd_programs import PROGRAMS

from backends import CompiledKernel, build, build_source
from backends.build import backend_of
from backends.call.signature import Signature
from backends.cuda.emulated import Emulated
from backends.cuda.emulator import EmulationError, Emulator
from backends.cuda.text import cuda_text
from tensorir import CHECKS, Target, lower, ops
from tensorir.text.parser import parse

ALL = ",".join(CHECKS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_wrong_with_programs(emulated, name):
    program = PROGRAMS[name]
    kernel = emulated(program.text, f"cuda-emulator -check={ALL} -seed=2")
    assert kernel.findings is None
    arrays = program.arrays(np.random.default_rng(1))
    expected = program.expected(*(array.copy() for array in arrays))
    results = kernel(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6, strict=True)
    assert not kernel.findings.reports
    stored = {count.buffer for count in kernel.findings.counts if count.what == "store"}
    assert {param.name for param in kernel.signature.params if param.is_output} <= stored


def test_nothing_is_wrong_with_operators(cache):
    """A part of them, compiled together."""
    target = Target("cuda-emulator", arch="sm_80", check=CHECKS)
    cases = [(name, len(op.examples) - 1) for name, op in ops.OPERATORS.items()][::3]
    funcs = [dataclasses.replace(ops.prim_func(*case), name=f"{case[0]}_") for case in cases]
    lowered = [lower(func, target) for func in funcs]
    kernels = Emulator(cuda_text(lowered[-1], target, *lowered[:-1]).source, cache=cache)
    backend = backend_of(target.kind)
    for (name, number), func, ir in zip(cases, funcs, lowered):
        signature = Signature.of(func, ir.size_vars)
        made = Emulated(ir, signature, target, kernels)
        executable = backend.load(made)
        kernel = CompiledKernel(
            func, ir, kernels.source, target, signature, backend, made, executable
        )
        kernel(*ops.OPERATORS[name].examples[number].arrays())
        assert not kernel.findings.reports


def without(text: str, words: str) -> str:
    return re.sub(rf"^.*{re.escape(words)}.*\n", "", text, flags=re.MULTILINE)


def test_a_report_is_an_error_of_the_call(emulated, cache):
    program = PROGRAMS["matmul"]
    kernel = emulated(program.text, "cuda-emulator -check=races")
    broken = without(kernel.source, "ti_sync();")
    func = parse(program.text)
    arrays = program.arrays(np.random.default_rng(1))
    faulty = build_source(func, broken, "cuda-emulator -check=races", cache=cache)
    with pytest.raises(EmulationError, match="race: .* no barrier lies between") as caught:
        faulty(*arrays)
    assert caught.value.reports == faulty.findings.reports
    assert {report.kind for report in caught.value.reports} == {"race"}
    aware = build_source(func, broken, "cuda-emulator", cache=cache)
    aware(*arrays)
    assert aware.findings is None


def test_an_edited_text_is_launched_as_the_scheduled_program(cache):
    """Arguments keep their shapes, and the number of blocks and threads is that of the program."""
    func = ops.prim_func("add", 0)
    arrays = ops.OPERATORS["add"].examples[0].arrays()
    kernel = build(func, "cuda-emulator", cache=cache)
    same = build_source(func, kernel.source, "cuda-emulator", cache=cache)
    np.testing.assert_array_equal(same(*arrays), kernel(*arrays))
    assert "] + x1[" in kernel.source
    other = kernel.source.replace("] + x1[", "] - x1[")
    found = build_source(func, other, "cuda-emulator", cache=cache)(*arrays)
    np.testing.assert_array_equal(found, arrays[0] - arrays[1], strict=True)


def test_reports_name_loops_of_the_program(emulated):
    text = """
@prim_func
def shift(A: f32[64], B: f32[64]):
    for t in thread("threadIdx.x", 64, annotations=SHARED):
        with alloc(S, f32[64], scope="shared"):
            S[t] = A[t]
            B[t] = S[63 - t]
""".replace("SHARED", '{"shared_bytes": 256, "shared_offsets": {"S": 0}}')
    kernel = emulated(text, "cuda-emulator -arch=sm_80 -check=races")
    with pytest.raises(EmulationError, match=r"line \d+ \(.*\): B\[") as caught:
        kernel(np.zeros(64, "f4"))
    assert len(caught.value.report.lines) == 2
