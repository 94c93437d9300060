"""Every operator on every example: its program is sound and means what its reference says.

The reference of an operator is NumPy, written apart from the expression. It is compared with the
unscheduled definition in float64, and the interpreter must stay within the bound on rounding errors
that tensorir.reference states.
"""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import TensorIRError, interpret, ops, parse, te, verify
from tensorir import dtype as dt
from tensorir.arrays import decode
from tensorir.reference import reference_with_tolerance
from tensorir.structural import structural_equal

CASES = [(name, n) for name, op in ops.OPERATORS.items() for n in range(len(op.examples))]

CONSTANTS = 1e-6
"""How far references are off where the expression has constants: those are float32."""


@pytest.mark.parametrize(("name", "number"), CASES, ids=lambda v: str(v))
def test_an_operator_does_what_its_reference_says(name, number):
    op = ops.OPERATORS[name]
    example = op.examples[number]
    func = ops.prim_func(name, number)
    verify(func)
    assert structural_equal(parse(repr(func)), func)
    arrays = example.arrays()
    expected = op.expected(example, arrays)
    exact, bounds = reference_with_tolerance(func, *arrays)
    results = interpret(func, *arrays)
    assert len(results) == len(expected) == len(func.outputs)
    for out, want, value, bound, got in zip(func.outputs, expected, exact, bounds, results):
        assert got.shape == want.shape
        if not dt.is_float(out.dtype):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(value, want)
            np.testing.assert_array_equal(got, want)
            continue
        assert want.dtype == np.float64
        np.testing.assert_allclose(value, want, rtol=CONSTANTS, atol=CONSTANTS)
        assert_within(decode(got, out.dtype), value, bound)


def assert_within(got, value, bound):
    """NaN and infinities are the same; elsewhere the bound holds, or 1e-5 where there is none."""
    finite = np.isfinite(value)
    np.testing.assert_array_equal(got[~finite], value[~finite])
    allowed = np.where(np.isfinite(bound), bound, 1e-5)
    assert (np.abs(got[finite] - value[finite]) <= allowed[finite]).all()


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_an_operator_is_documented(name):
    op = ops.OPERATORS[name]
    assert getattr(ops, name) is op.make and name in ops.__all__
    assert op.summary.endswith(".")
    assert len(op.examples) == len({repr(e) for e in op.examples})


def test_prim_func_names_what_there_is():
    with pytest.raises(TensorIRError, match="there is no operator 'conv9d'; known are .*conv2d"):
        ops.prim_func("conv9d")
    with pytest.raises(TensorIRError, match="operator 'relu' has the examples 0 to 4, not 99"):
        ops.prim_func("relu", 99)
    example = ops.Example([("n", 3)], sizes={"n": 2})
    assert [b.name for b in ops.prim_func("relu", example).params] == ["x0", "relu"]


def test_the_data_of_examples_is_a_function_of_the_seed():
    example = ops.OPERATORS["matmul"].examples[0]
    again, other = example.arrays(seed=0), example.arrays(seed=1)
    np.testing.assert_array_equal(example.arrays()[0], again[0])
    assert (example.arrays()[0] != other[0]).any()


@pytest.fixture
def table(monkeypatch):
    """A copy of the table of operators that a test may add to."""
    copy = dict(ops.OPERATORS)
    monkeypatch.setattr("tensorir.ops.registry.OPERATORS", copy)
    return copy


def test_a_new_operator_needs_only_itself(table):
    @ops.operator(reference=lambda x, by: x * by, examples=[ops.Example([(3,)], {"by": 3.0})])
    def scaled(x, by, name="scaled"):
        """x * by."""
        return te.compute(x.shape, lambda *i: x[i] * by, name)

    assert table["scaled"].summary == "x * by." and table["scaled"].family == "test_ops"
    func = ops.prim_func("scaled")
    array = table["scaled"].examples[0].arrays()
    np.testing.assert_allclose(interpret(func, *array)[0], array[0] * 3)


def test_registering_is_checked(table):
    def relu(x):
        """Again."""

    def quiet(x):
        return x

    def untried(x):
        """Nothing."""

    one = [ops.Example([(3,)])]
    with pytest.raises(TensorIRError, match="there is an operator 'relu' already"):
        ops.operator(reference=None, examples=one)(relu)
    with pytest.raises(TensorIRError, match="operator 'quiet' has no docstring"):
        ops.operator(reference=None, examples=one)(quiet)
    with pytest.raises(TensorIRError, match="operator 'untried' has no example"):
        ops.operator(reference=None, examples=[])(untried)
    assert "quiet" not in table and "untried" not in table


def test_operators_compose():
    x, w = te.placeholder((4, 6), name="x"), te.placeholder((5, 6), name="w")
    y = ops.softmax(ops.relu(ops.linear(x, w)))
    func = te.create_prim_func([x, w, y])
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype("float32") for s in ((4, 6), (5, 6)))
    powers = np.exp(np.maximum(a @ b.T, 0))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(interpret(func, a, b)[0], expected, rtol=1e-5)
