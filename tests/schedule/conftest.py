"""The oracle that every schedule test ends with."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from small_programs import make_chain, make_conv, make_matmul, random_inputs

from backends import build
from schedule import Schedule, Trace
from tensorir import PrimFunc, interpret, parse, reference, verify


def requests(trace: Trace) -> list[tuple[str, str]]:
    """What is asked for, step by step: traces that ask for the same replay to the same."""
    return [(step.name, json.dumps(step.args, sort_keys=True)) for step in trace.instructions]


def check_schedule(sch: Schedule, compiled: bool = True) -> None:
    """Verify, print and parse, replay, and compare interpreter and compiled C with NumPy."""
    func = sch.func
    verify(func)
    text = str(func)
    assert str(parse(text)) == text
    kept = Trace.from_json(sch.trace.dumps())
    assert str(Schedule(sch.definition).apply(kept).func) == text
    assert requests(Trace.from_python(sch.trace.as_python())) == requests(kept)
    inputs = random_inputs(sch.definition)
    expected = reference(sch.definition, *inputs)
    for found, wanted in zip(interpret(func, *inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    if compiled:
        result = build(sch)(*inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        for found, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture
def check() -> Callable[..., None]:
    return check_schedule


@pytest.fixture
def matmul() -> Callable[..., PrimFunc]:
    return make_matmul


@pytest.fixture
def chain() -> Callable[..., PrimFunc]:
    return make_chain


@pytest.fixture
def conv() -> Callable[..., PrimFunc]:
    return make_conv
