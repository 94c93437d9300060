"""Math functions on the emulator keep the errors that docs/accuracy.md states.

Their texts are those of C. What a GPU has of its own is correctly rounded (roots, quotients, fused
multiply-add), or beyond the range of the texts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.resources import read_resources

pytest.importorskip("scipy")
sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import generate_accuracy as accuracy  # noqa: E402

COUNT = 3 * 1024 + 5


@pytest.mark.parametrize("dtype", accuracy.TABLES)
def test_errors(dtype, cache):
    if dtype == "float64" and np.finfo("longdouble").nmant < 63:
        pytest.skip("nothing more precise to compare with")
    sch, arrays = accuracy.program(COUNT, 1, dtype)
    kernel = build(sch, "cuda-emulator", cache=cache)
    found = {name: np.zeros(COUNT, dtype) for name in accuracy.TABLES[dtype]}
    kernel(*arrays, *found.values())
    for name, f in accuracy.TABLES[dtype].items():
        given = accuracy.arguments(name, COUNT, dtype)
        error, at = accuracy.largest_error(name, given, found[name])
        assert error <= max(f.limit, f.plain), (name, at)  # g++ fuses what is in one basic block
    if why_not() is None:
        for used in read_resources(compile_cubin(kernel.source, "sm_90a").log).values():
            assert not used.spills, used
