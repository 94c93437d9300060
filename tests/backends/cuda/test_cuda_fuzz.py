"""Random expressions, in scalars and vectors: the emulator against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from emit.test_emit_fuzz import COUNT, TYPES, data, expression, program

from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.text import cuda_text
from tensorir import PrimFunc, Target, interpret
from tensorir import dtype as dt
from tensorir.arrays import decode


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(run, threaded, seed, lanes):
    rng = random.Random(100 + seed)
    makes = [expression(rng, kind, rng.randint(1, 4)) for kind in TYPES for _ in range(2)]
    arrays = data(np.random.default_rng(seed))
    expected = interpret(program(makes, 1), *arrays)
    func = program(makes, lanes)
    outs = func.params[len(arrays) :]
    results = [np.zeros(COUNT, dt.numpy_dtype(p.dtype)) for p in outs]
    run(func, *arrays, *results)
    for out, result, wanted in zip(outs, results, expected, strict=True):
        held = [decode(values, out.dtype) for values in (result, wanted)]
        np.testing.assert_array_equal(*held, err_msg=f"{out.name}, {lanes} lanes")
    if why_not() is None and seed == 0:
        kernel = PrimFunc(func.name, func.params, (), threaded(func.body))
        compile_cubin(cuda_text(kernel, Target("cuda", arch="sm_80")).source, "sm_80")
