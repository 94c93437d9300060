"""Every operator, on the emulator against its NumPy reference, and compiled by NVRTC: every other
example as it is written, whose threads lowering binds, the others by their default schedules.

Many programs are compiled together: a text of sixty takes as long as two or three of one each.
"""

from __future__ import annotations

import dataclasses

import pytest
from operator_examples import check, chosen

from autotune import default_schedule
from backends import CompiledKernel
from backends.build import backend_of
from backends.call.signature import Signature
from backends.cuda.emulated import Emulated
from backends.cuda.emulator import Emulator
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from tensorir import PrimFunc, Target, lower, ops

TOGETHER = 40
CASES = chosen()
TARGET = Target("cuda-emulator", arch="sm_80")


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
    lowered = [
        lower(default_schedule(func, TARGET).func if at % 2 else func, TARGET)
        for at, func in enumerate(funcs, first)
    ]
    source = cuda_text(lowered[-1], TARGET, *lowered[:-1]).source
    emulator = Emulator(source, cache=cache)
    for (name, number), kernel in zip(cases, kernels(funcs, emulator, lowered)):
        check(name, number, kernel)
    if why_not() is None:
        arch = ("sm_80", "sm_90a")[first // TOGETHER % 2]
        for used in read_resources(compile_cubin(source, arch).log).values():
            assert not used.spills, used
