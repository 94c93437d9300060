"""Every operator, on the emulator against its NumPy reference, and compiled by NVRTC: every other
example as it is written, whose threads lowering binds, the others by their default schedules.

Many programs are compiled together: a text of sixty takes as long as two or three of one each.
"""

from __future__ import annotations

import pytest
from operator_examples import check, chosen, emulated

from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources
from tensorir import Target

TOGETHER = 40
CASES = chosen()
TARGET = Target("cuda-emulator", arch="sm_80")


@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_operators(first, cache, samples):
    """A run of all tests has half of them, of which half are scheduled."""
    cases = CASES[first : first + TOGETHER]
    if samples:
        cases = [case for number, case in enumerate(cases) if number // 2 % 2 == 0]
    scheduled = range(1, len(cases), 2)
    made = emulated(cases, TARGET, scheduled, cache)
    for (name, number), kernel in zip(cases, made):
        check(name, number, kernel)
    source = made[0].source
    if why_not() is None:
        arch = ("sm_80", "sm_90a")[first // TOGETHER % 2]
        for used in read_resources(compile_cubin(source, arch).log).values():
            assert not used.spills, used
