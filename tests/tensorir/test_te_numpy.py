"""NumPy's numbers and functions beside expressions and tensors."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from tensorir import TensorIRError, te

A = te.placeholder((4, 5), name="A")
OPERANDS = {"element": A[0, 1], "index": te.var("i"), "tensor": A}
NUMBERS = [np.float32(2), np.float64(2), np.int64(3), np.int8(3), np.bool_(True)]
OPERATORS = (
    "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le gt ge eq ne"
).split()


def result(function, *operands):
    try:
        found = function(*operands)
    except TensorIRError as error:
        return type(error)
    return repr(found) if not isinstance(found, te.Tensor) else repr(found.op.body)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("kind", OPERANDS)
def test_numbers_of_numpy_are_those_of_python(name, kind):
    function, x = getattr(operator, name), OPERANDS[kind]
    for number in NUMBERS:
        assert result(function, number, x) == result(function, number.item(), x), number
        assert result(function, x, number) == result(function, x, number.item()), number


@pytest.mark.parametrize("kind", OPERANDS)
def test_functions_of_numpy_say_what_to_use(kind):
    """Those that took a tensor for one element among them: a dot was a product of elements."""
    x = OPERANDS[kind]
    calls = {
        "te.exp": lambda: np.exp(x), "np.maximum": lambda: np.maximum(x, 0),
        "np.sum": lambda: np.sum(x), "np.max": lambda: np.max(x), "np.dot": lambda: np.dot(x, x),
        "np.add": lambda: np.add(x, 1.0), "np.where": lambda: np.where(x, x, 0),
        "np.divmod": lambda: divmod(np.float64(2), x), "np.matmul": lambda: np.ones((4, 4)) @ x,
        "np.tensordot": lambda: np.tensordot(x, x, 0), "np.prod": lambda: np.prod(x),
        "np.transpose": lambda: np.transpose(x), "np.outer": lambda: np.outer(x, x),
        "np.einsum": lambda: np.einsum("ij->ji", x), "np.clip": lambda: np.clip(x, 0, 1),
    }  # fmt: skip
    for name, call in calls.items():
        with pytest.raises(TensorIRError, match="computed by a kernel; use") as caught:
            call()
        assert name in str(caught.value)
    for call, name in ((round, "te.rint"), (math.trunc, "te.trunc")):
        with pytest.raises(TensorIRError, match=f"computed by a kernel; use {name}"):
            call(x)
    with pytest.raises(TensorIRError, match="not an expression"):
        np.ones(3) * x
