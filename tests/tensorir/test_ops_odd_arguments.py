"""Operators take what their annotations say, or refuse it in words, whatever it is."""

import inspect

import pytest

from tensorir import TensorIRError, ops, te
from tensorir.ops.registry import OPERATORS, Example, known_operators, operator
from tests.odd import check_odd_arguments


@pytest.mark.parametrize("name", sorted(known_operators()))
def test_odd_arguments_are_refused_in_words(name):
    """Accepted or refused with a TensorIRError, and never another exception; sizes as large as they
    may be, too, without counting up to them."""
    found = OPERATORS[name]
    example = found.examples[0]
    tensors = example.placeholders()
    keys = list(inspect.signature(found.make).parameters)
    usual = {**dict(zip(keys, [tensors] if found.variadic else tensors)), **example.attrs}
    check_odd_arguments(found.make, usual)


def test_what_does_not_fit_is_named():
    x = te.placeholder((2, 3), name="x")
    for call, words in (
        (lambda: ops.sum(x, keepdims="yes"), "sum: keepdims is 'yes', where True or False belongs"),
        (lambda: ops.roll(x, None, 0), "roll: shift is None, where an integer belongs"),
        (lambda: ops.transpose(x, 1), "transpose: axes is 1, where a list of integers or None"),
        (lambda: ops.softmax(x, algorithm=3), "softmax: algorithm is 3, where a name belongs"),
        (lambda: ops.softmax(x, axes=0), "softmax: .* 'axes'; it takes .x, axis, algorithm, name."),
        (lambda: ops.softmax(), "softmax: missing a required argument: 'x'; it takes .x, axis"),
    ):
        with pytest.raises(TensorIRError, match=words):
            call()


def test_operators_of_users_are_checked_by_their_annotations():
    @operator(reference=lambda x, by: x * by, examples=[Example([(3,)], {"by": 2})])
    def scaled_by(x: te.Tensor, by: int, name: str = "scaled_by") -> te.Tensor:
        """x times `by`."""
        return te.compute(x.shape, lambda i: x[i] * by, name)

    try:
        x = te.placeholder((3,), name="x")
        assert scaled_by(x, 2).shape == x.shape
        with pytest.raises(TensorIRError, match="scaled_by: by is 'x', where an integer belongs"):
            scaled_by(x, "x")
    finally:
        del OPERATORS["scaled_by"]


@pytest.mark.parametrize("size", [1, 5, 6, 7, 12])
def test_windows_that_fit_a_size_are_as_long_as_counted(size):
    from tensorir.ops.adaptive_pool import _Bins

    for count in range(1, 20):
        ends = [(y * size // count, -(-(y + 1) * size // count)) for y in range(count)]
        lengths = {high - low for low, high in ends}
        bins = _Bins(size, count)
        assert (bins.longest, bins.same) == (max(lengths), len(lengths) == 1)
