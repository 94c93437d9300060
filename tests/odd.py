"""Arguments that nobody means, and what a function is to make of them."""

import inspect

import numpy as np

from tensorir import TensorIRError, te

TENSOR = te.placeholder((4,), name="T")

ODD = (
    None, True, -1, 0, 2.5, float("nan"), "x", "", [], [None, 2.5], [[1]], {}, {"a": 1}, object(),
    np.array([1, 2]), np.array(3.0), np.int64(1), te.const(2, "int64"), te.var("n"), 1 + 2j, b"i",
    10**30, 2**62, "bfloat16", range(2), TENSOR, [TENSOR],
)  # fmt: skip


def check_odd_arguments(function, usual):
    """Each parameter in turn gets odd values, the others what is `usual`: the call is accepted, or
    refused with a TensorIRError that says something, and never ends in another exception."""
    parameters = inspect.signature(function).parameters.values()
    single = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for key in [p.name for p in parameters if p.kind in single]:
        for value in ODD:
            try:
                function(**{**usual, key: value})
            except TensorIRError as error:
                assert str(error)
