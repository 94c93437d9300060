"""Arrays, loops and programs may have any name, also those that texts for GPUs use themselves."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from backends.opencl.device import why_no_device
from tensorir import parse

NAMES = [
    "ti_sync", "ti_arena", "ti_part_of_M", "TI_LOCAL", "M_part", "threadIdx", "float4", "i64",
    "INF_F32", "uint", "half", "barrier", "get_local_id", "arena",
]  # fmt: skip
TARGETS = ["cuda-emulator", "cuda-emulator -check=races,bounds", "opencl"]


@pytest.mark.parametrize("target", TARGETS)
def test_names_that_the_text_uses(target):
    if target == "opencl" and why_no_device() is not None:
        pytest.skip(why_no_device())
    params = ", ".join(f"{name}: f32[64]" for name in NAMES)
    total = " + ".join(f"{name}[v]" for name in NAMES)
    func = parse(f"""
        @prim_func
        def ti_load4({params}, B: f32[64]):
            M = alloc(f32[64], scope="shared")
            for b in thread("blockIdx.x", 1):
                for ti_vec in thread("threadIdx.x", 64):
                    with block("M"):
                        v = spatial(64, ti_vec)
                        M[v] = {total}
                for double in thread("threadIdx.x", 64):
                    with block("B"):
                        w = spatial(64, double)
                        B[w] = M[63 - w] * 2.0
    """)
    arrays = [np.arange(64, dtype=np.float32) + n for n in range(len(NAMES))]
    np.testing.assert_array_equal(build(func, target)(*arrays), sum(arrays)[::-1] * 2)
