"""CUDA text of ten programs: kept to be read, run on the emulator, compiled by NVRTC."""

from __future__ import annotations

import numpy as np
import pytest
from spmd_programs import PROGRAMS

from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from tensorir import Target
from tensorir.parser import parse

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
