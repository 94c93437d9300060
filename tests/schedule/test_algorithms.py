"""The registry of algorithms: those that come along, one of the user, and one that is none."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import (
    ALGORITHMS,
    Algorithm,
    Alternative,
    TensorIRError,
    check_algorithm,
    known_algorithms,
    register_algorithm,
    te,
)


def doubled(wrong=0.0):
    """y = x + x for y = 2 x, or something near it."""

    def recognise(func, block):
        def compute(given, names):
            (x,) = given
            return [te.compute(x.shape, lambda *i: x[i] + x[i] + wrong, name=names[0])]

        return Alternative(func.params[-1:], func.params[:1], compute)

    def examples():
        x = te.placeholder((3,), "float64", name="x")
        y = te.compute((3,), lambda i: x[i] * 2.0, name="y")
        return [(te.create_prim_func([x, y]), "y")]

    return Algorithm("doubled", "a sum for a product", recognise, examples)


@pytest.mark.parametrize("name", sorted(known_algorithms()))
def test_those_that_come_along_are_right(name):
    check_algorithm(known_algorithms()[name])


def test_one_of_your_own():
    register_algorithm(doubled())
    try:
        x = te.placeholder((5,), name="x")
        y = te.compute((5,), lambda i: x[i] * 2.0, name="y")
        sch = Schedule(te.create_prim_func([x, y]))
        sch.use_algorithm("y", "doubled")
        assert "x[vi0] + x[vi0]" in str(sch.func)
        with pytest.raises(TensorIRError, match="there is an algorithm 'doubled' already"):
            register_algorithm(doubled())
    finally:
        del ALGORITHMS["doubled"]


def test_a_lie():
    with pytest.raises(TensorIRError, match="'y' of its example differs by"):
        register_algorithm(doubled(1e-9))
    assert "doubled" not in known_algorithms()
