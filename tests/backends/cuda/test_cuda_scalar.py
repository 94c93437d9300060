"""Scalar expressions as CUDA: the tests of C's emitter, run on the emulator."""

import numpy as np
from emit.test_emit_scalar import *  # noqa: F403
from emit.test_emit_scalar import bfloat16, elementwise, float_patterns

from tensorir import Cast


def test_bfloat16_conversions(run):
    """Of NaN the hardware keeps no more than that it is one."""
    a = float_patterns()
    out = np.zeros(a.size, np.uint16)
    func = elementwise(lambda x: Cast("bfloat16", x), "float32", result="bfloat16", count=a.size)
    run(func, a, out)
    number = ~np.isnan(a)
    np.testing.assert_array_equal(out[number], bfloat16(a)[number])
    assert ((out[~number] & 0x7FFF) > 0x7F80).all()
