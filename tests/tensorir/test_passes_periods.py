"""Periods: expressions repeat after as many steps as is said; names stand for any value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir.arith.exhaustive import values_at
from tensorir.expr import Var
from tensorir.passes.facts.periods import period, with_names

K, T = Var("k", "int64"), Var("t", "int64")
STEPS = np.arange(96)


def values(e, k, t=0):
    return np.broadcast_to(values_at(e, {K: np.asarray(k), T: np.asarray(t)}), np.shape(k))


leaves = st.sampled_from([K, T, K * 3, T * 5]) | st.integers(1, 9).map(lambda n: K * 0 + n)
numbers = st.integers(1, 6)
terms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, numbers).map(lambda p: p[0] * p[1]),
        st.tuples(inner, numbers).map(lambda p: p[0] // p[1]),
        st.tuples(inner, numbers).map(lambda p: p[0] % p[1]),
    ),
    max_leaves=6,
)


@given(terms)
def test_what_is_said_to_repeat_does(e):
    steps = period(K, e)
    if steps is not None:
        for t in range(3):
            assert np.array_equal(values(e, STEPS, t), values(e, STEPS + steps, t))


@pytest.mark.parametrize(
    ("e", "steps"),
    [
        ((K + T) % 8, 8), ((K // 3 * 5 + T) % 8, 24), (K // 2 % 2, 4), (K % 6 // 2, 6),
        ((K % 3 + K // 4) % 2, 24), (K + T, None), (K // 8, None), (T % 4, 1),
    ],
)  # fmt: skip
def test_quotients_repeat_as_late_as_what_they_divide(e, steps):
    """(k // 3) % 8 was taken to repeat after eight steps: blocks that came later were not tried."""
    assert period(K, e) == steps


def test_sums_that_all_threads_share_are_one_variable_in_remainders():
    names = {}
    place = with_names(T * 4 + (T + K // 3 * 70 + K % 17 * 5 + 1) % 8 + K // 5, {T}, names)
    asked = with_names((T + K % 17 * 5 + K // 3 * 70) % 8, {T}, names)
    assert len(names) == 1
    (name,) = names.values()
    assert period(name, place) == period(name, asked) == 8
    assert period(K, place) is None, "what is outside of remainders stays"


def test_multiples_of_variables_and_what_all_share_stay():
    names = {}
    for e in ((T + K * 8) % 16, K // 3 % 4 + T, T // 4):
        assert with_names(e, {T}, names) is e
    assert not names
