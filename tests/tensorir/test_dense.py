"""is_dense against counting: indices that take all values of a box."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tensorir import Analyzer, Var, is_dense

LOOPS = [Var("i"), Var("j"), Var("k")]


def taken(indices, extents):
    """The points that indices, functions of numbers, take."""
    return {tuple(f(*point) for f in indices) for point in product(*map(range, extents))}


def is_box(points):
    sides = [{point[n] for point in points} for n in range(len(next(iter(points))))]
    whole = all(max(s) - min(s) + 1 == len(s) for s in sides)
    size = 1
    for side in sides:
        size *= len(side)
    return whole and size == len(points)


def asked(indices, extents):
    variables = LOOPS[: len(extents)]
    return is_dense([f(*variables) for f in indices], dict(zip(variables, extents)), Analyzer())


@pytest.mark.parametrize(
    ("indices", "extents"),
    [
        ([lambda i, j, k: (i * 40 + j * 5 + k) // 4, lambda i, j, k: (i * 40 + j * 5 + k) % 4],
         (2, 8, 5)),
        ([lambda i, j, k: (i * 8 + j * 4 + k) // 3, lambda i, j, k: (i * 8 + j * 4 + k) % 3],
         (3, 2, 4)),
        ([lambda i, j: (i * 6 + j) // 9, lambda i, j: (i * 6 + j) % 9], (3, 6)),
        ([lambda i: i // 6, lambda i: i % 6], (18,)),
    ],
)  # fmt: skip
def test_loops_that_were_made_one_and_split_again(indices, extents):
    assert is_box(taken(indices, extents))
    assert asked(indices, extents)


@pytest.mark.parametrize(
    ("indices", "extents"),
    [
        ([lambda i: i // 4, lambda i: i % 4], (18,)),  # the last row has two elements
        ([lambda i, j: (i * 7 + j) // 4, lambda i, j: (i * 7 + j) % 4], (3, 6)),
        ([lambda i, j: (i * 6 + j) // 4, lambda i, j: (i * 6 + j) % 4], (3, 6)),
        ([lambda i, j: (i * 6 + j) // 9, lambda i, j: (i * 6 + j) % 9 + i], (3, 6)),
    ],
)
def test_gaps(indices, extents):
    assert not is_box(taken(indices, extents))
    assert not asked(indices, extents)


@pytest.mark.parametrize("shape", [(3, 5, 2), (2, 10, 2), (5, 3, 4), (3, 7, 1)])
def test_loops_that_threads_share_to_the_end_that_a_condition_has(shape):
    """As one loop of eights, of which the last one is not whole: what remains of a quotient may be
    a digit of one thread's number alone."""
    rows, columns, lanes = shape
    size = rows * columns * lanes
    extents = (-(-size // 8), 2, 4)

    def total(i, j, k):
        return i * 8 + j * 4 + k

    indices = [
        lambda *v: total(*v) // (columns * lanes),
        lambda *v: total(*v) // lanes % columns,
        lambda *v: total(*v) % lanes,
    ]
    points = [v for v in product(*map(range, extents)) if total(*v) < size]
    assert is_box({tuple(f(*v) for f in indices) for v in points})
    known = Analyzer(dict(zip(LOOPS, extents))).assuming(total(*LOOPS) < size)
    assert is_dense([f(*LOOPS) for f in indices], dict(zip(LOOPS, extents)), known)


@pytest.mark.parametrize("shape", [(4, 5, 5), (2, 3, 7), (8, 19, 3), (6, 2, 2)])
def test_rows_of_lanes_to_the_end_that_a_condition_has(shape):
    """Warps have the rows of a box each, their lanes what is in these, of several dimensions."""
    rows, columns, deep = shape
    lanes, pieces = 8, -(-columns * deep // 8)
    extents = (pieces, rows * lanes)

    def place(i, j):
        return i * lanes + j % lanes

    indices = [
        lambda i, j: j // lanes, lambda i, j: place(i, j) // deep, lambda i, j: place(i, j) % deep
    ]  # fmt: skip
    points = [v for v in product(*map(range, extents)) if place(*v) < columns * deep]
    assert is_box({tuple(f(*v) for f in indices) for v in points})
    known = Analyzer(dict(zip(LOOPS, extents))).assuming(place(*LOOPS[:2]) < columns * deep)
    assert is_dense([f(*LOOPS[:2]) for f in indices], dict(zip(LOOPS, extents)), known)


@pytest.mark.parametrize("seed", range(200))
def test_no_box_is_claimed_that_is_none(seed):
    draw = Random(seed)
    extents = [draw.randint(1, 6) for _ in range(draw.choice([1, 2, 3]))]
    scales = [draw.choice([1, 2, 3, 4, 5, 6, 12]) for _ in extents]
    divisor, other = draw.choice([2, 3, 4, 5, 7]), draw.choice([1, 2, 3])

    def total(*values):
        return sum(s * v for s, v in zip(scales, values))

    choices = [
        lambda *v: total(*v) // divisor,
        lambda *v: total(*v) % divisor,
        lambda *v: total(*v) // divisor % 3 * other,
        lambda *v: total(*v),
        lambda *v: v[0] * other,
        lambda *v: v[-1] // 2 + v[0],
        lambda *v: v[-1] % 2,
        lambda *v: v[-1] // divisor * other + v[0] % 2,
        lambda *v: (v[-1] % 4 + 4 * v[0]) // divisor,
        lambda *v: (v[-1] % 4 + 4 * v[0]) % divisor,
        lambda *v: v[-1] // 4,
    ]
    extents[-1] *= draw.choice([1, 1, 4])
    indices = draw.sample(choices, draw.choice([1, 2, 2, 3]))
    if asked(indices, extents):
        assert is_box(taken(indices, extents)), (extents, scales, divisor)
