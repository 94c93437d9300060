"""Programs in SPMD form on the emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from backends import ObjectCache, build_source
from backends.cuda.text import cuda_text
from tensorir import PrimFunc, Target


@pytest.fixture
def emulated_run(cache: ObjectCache) -> Callable[[PrimFunc], None]:
    """emulated_run(func): a copy of four floats on the emulator has to be one."""

    def run(func: PrimFunc) -> None:
        source = cuda_text(func, Target("cuda-emulator")).source
        kernel = build_source(func, source, "cuda-emulator", cache=cache)
        values, out = np.arange(4, dtype="f4"), np.zeros(4, "f4")
        kernel(values, out)
        np.testing.assert_array_equal(out, values)

    return run
