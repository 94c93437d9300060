"""What is given to the functions that programs begin with is taken, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import TensorIRError, interpret, parse, reference, te, verify


def program():
    a = te.placeholder((4,), name="A")
    return te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="B")])


WRONG = {
    "None": None,
    "number": 3,
    "text": "x",
    "list": [[1.0]],
    "dict": {3: 4},
    "class": object,
    "array": np.zeros(3),
    "expression": te.var("n") + 1,
    "tensor": te.placeholder((3,), name="T"),
    "function": len,
    "bytes": b"x",
}

TAKERS = {
    "create_prim_func": te.create_prim_func,
    "Schedule": Schedule,
    "build": build,
    "interpret": interpret,
    "reference": reference,
    "verify": verify,
    "parse": parse,
    "type of a placeholder": lambda x: te.placeholder((3,), x, name="A"),
    "type of a cast": lambda x: te.cast(x, te.var("n")),
    "cast": lambda x: te.cast("int32", x),
    "astype": lambda x: te.var("n").astype(x),
    "target": lambda x: build(program(), x),
    "time": lambda x: build(program()).time(min_ms=x),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_argument_is_refused(taker, wrong):
    if (taker, wrong) in {("time", "number")}:
        return
    with pytest.raises(TensorIRError) as error:
        TAKERS[taker](WRONG[wrong])
    assert str(error.value).strip()


@pytest.mark.parametrize("wrong", ["number", "text", "class", "array", "function", "tensor"])
def test_what_are_no_constants_is_refused(wrong):
    with pytest.raises(TensorIRError, match="constant"):
        build(program(), constants=WRONG[wrong])


def test_a_schedule_in_place_of_its_program():
    with pytest.raises(TensorIRError, match="pass its .func"):
        interpret(Schedule(program()), np.zeros(4, np.float32))


def test_a_text_that_nests_too_deep():
    text = "@prim_func\ndef f(A: f32[4]):\n    A[0] = " + "1.0 + " * 5000 + "1.0"
    with pytest.raises(TensorIRError, match="fewer operations inside of each other"):
        parse(text)
