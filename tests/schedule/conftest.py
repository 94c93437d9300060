"""The oracle that every schedule test ends with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from zlib import crc32

import numpy as np
import pytest
from small_programs import make_chain, make_conv, make_matmul, random_inputs

from backends import build, resolve
from schedule import Schedule, Trace
from tensorir import (
    TENSORIZE,
    Extern,
    For,
    PrimFunc,
    interpret,
    lower,
    parse,
    reference,
    verify,
    walk,
)


def requests(trace: Trace) -> list[tuple[str, str]]:
    """What is asked for, step by step: traces that ask for the same replay to the same."""
    return [(step.name, json.dumps(step.args, sort_keys=True)) for step in trace.instructions]


def check_schedule(sch: Schedule, compiled: bool = True, all_compiled: bool = False) -> None:
    """Verify, print and parse, replay, and compare with NumPy what the interpreter finds, and what
    is `compiled`: where no C is called, three of four are interpreted as they are lowered, since a
    compiler takes longer than all the rest, and what it makes of such programs is tested for
    backends. Where whole files are run, and with `--all-cases`, all are compiled."""
    func = sch.func
    verify(func)
    text = str(func)
    assert str(parse(text)) == text
    kept = Trace.from_json(sch.trace.dumps())
    assert str(Schedule(sch.definition).apply(kept).func) == text
    assert requests(Trace.from_python(sch.trace.as_python())) == requests(kept)
    inputs = random_inputs(sch.definition)
    expected = reference(sch.definition, *inputs)
    outputs = [interpret(func, *inputs)]
    if compiled and (all_compiled or calls_c(func) or crc32(text.encode()) % 4 == 0):
        result = build(sch)(*inputs)
        outputs.append(result if isinstance(result, tuple) else (result,))
    elif compiled:
        outputs.append(interpret(lower(func, resolve("c")), *(a.ravel() for a in inputs)))
    for found, wanted in ((a, b) for o in outputs for a, b in zip(o, expected, strict=True)):
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def calls_c(func: PrimFunc) -> bool:
    """Whether there are functions given by C text, or instructions."""
    return any(
        isinstance(node, Extern) or (isinstance(node, For) and TENSORIZE in node.annotations)
        for node in walk(func.body)
    )


@pytest.fixture
def check(samples: bool) -> Callable[..., None]:
    return partial(check_schedule, all_compiled=not samples)


@pytest.fixture
def matmul() -> Callable[..., PrimFunc]:
    return make_matmul


@pytest.fixture
def chain() -> Callable[..., PrimFunc]:
    return make_chain


@pytest.fixture
def conv() -> Callable[..., PrimFunc]:
    return make_conv
