"""Random schedules of the operators of tensorir.ops compute what their references say."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from schedule import Schedule
from tensorir import dtype as dt
from tensorir import interpret, ops, parse, verify
from tensorir.arrays import decode

sys.path.insert(0, str(Path(__file__).parent))
from random_schedules import Stress  # noqa: E402

PLAIN = ("elementwise", "broadcast", "activation")
"""Families of one stage each, which other random schedules are full of."""

CASES = [
    (name, number)
    for name, op in ops.OPERATORS.items()
    for number in range(len(op.examples))
    if op.family not in PLAIN
]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-5, "float64": 1e-6}
MAX_STEPS = 12


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_a_random_schedule_of_a_random_operator(seed):
    pick = random.Random(seed).choice
    name, number = pick(CASES)
    op = ops.OPERATORS[name]
    example = op.examples[number]
    sch = Schedule(ops.prim_func(name, number))
    Stress(pick).run(sch, pick(range(1, MAX_STEPS + 1)))
    verify(sch.func)
    text = str(sch.func)
    assert str(parse(text)) == text
    arrays = example.arrays(seed)
    expected = op.expected(example, arrays)
    results = interpret(sch.func, *arrays, races=True)
    for out, got, want in zip(sch.func.outputs, results, expected, strict=True):
        if not dt.is_float(out.dtype):
            np.testing.assert_array_equal(got, want, err_msg=f"{name} {number}\n{sch.trace}")
            continue
        bound = TOLERANCE[out.dtype]
        found = decode(got, out.dtype)
        np.testing.assert_allclose(
            found, want, rtol=bound, atol=bound, err_msg=f"{name} {number}\n{sch.trace}"
        )
