"""te.at: reads at places that are data."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import te
from tensorir.errors import TensorIRError, VerifyError
from tensorir.interpreter.interpret import interpret
from tensorir.verifier.program import verify

X = te.placeholder((4, 5), name="X")
PLACES = np.array([-(2**31), -6, -5, -1, 0, 3, 4, 5, 9, 2**31 - 1])


def gathered(dtype, **how):
    """Rows and columns of X at the places of J."""
    J = te.placeholder((len(PLACES),), dtype, name="J")
    shape = (len(PLACES), len(PLACES))
    C = te.compute(shape, lambda i, j: te.at(X, J[i], J[j], **how), name="C")
    func = te.create_prim_func([X, J, C])
    verify(func)
    x = np.arange(20, dtype="float32").reshape(4, 5)
    return x, interpret(func, x, PLACES.astype(dtype))[0]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_places_are_those_of_numpy(dtype, mode):
    x, got = gathered(dtype, mode=mode)
    near = abs(PLACES) < 100  # NumPy goes to a far place once around after the other
    for chosen, rows, columns in (
        (slice(None), *(PLACES % size if mode == "wrap" else PLACES for size in x.shape)),
        (near, PLACES[near], PLACES[near]),
    ):
        wanted = np.take(np.take(x, rows, axis=0, mode=mode), columns, axis=1, mode=mode)
        np.testing.assert_array_equal(got[chosen][:, chosen], wanted)


def test_clip_is_the_default():
    np.testing.assert_array_equal(gathered("int64")[1], gathered("int64", mode="clip")[1])


@pytest.mark.parametrize("fill", [0, -1.5, np.nan])
def test_what_is_outside_is_filled(fill):
    x, got = gathered("int64", mode="fill", fill=fill)
    rows, columns = [(PLACES >= 0) & (PLACES < size) for size in x.shape]
    inside = np.ix_(rows, columns)
    expected = np.full(got.shape, fill, "float32")
    expected[inside] = x[np.ix_(PLACES[rows], PLACES[columns])]
    np.testing.assert_array_equal(got, expected)


def test_symbolic_sizes():
    n = te.var("n")
    S, J = te.placeholder((n,), name="S"), te.placeholder((3,), "int64", name="J")

    def read(mode):
        return te.compute((3,), lambda i: te.at(S, J[i], mode=mode), name="C")

    func = te.create_prim_func([S, J, read("fill")])
    verify(func)
    empty = np.zeros(0, "float32"), np.array([-1, 0, 1])
    np.testing.assert_array_equal(interpret(func, *empty)[0], [0, 0, 0])
    for mode in ("clip", "wrap"):
        with pytest.raises(VerifyError, match="can read outside of 'S'"):
            read(mode)
        te.compute((n,), lambda i: te.at(S, i + J[0], mode=mode), name="C")  # noqa: B023


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: te.at(X, 0), "a place in each dimension, not .* and 1 places"),
        (lambda: te.at(3, 0), "te.at takes a tensor"),
        (lambda: te.at(X, 0, 1.5), "place 1.5 in 'X' is float32, no integer"),
        (lambda: te.at(X, 0, 0, mode="fast"), "not 'fast': no read is left unchecked"),
        (lambda: te.at(X, 0, 0, mode="nearest"), "'clip', 'wrap' and 'fill', not 'nearest'"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(TensorIRError, match=message):
        call()
