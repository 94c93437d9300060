"""Boxes of windows in memory: what several axes of a dimension reach is counted once."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.streams import LINE, PAGE, SETS, WAY, WAYS, Stream, pieces_of, stays

ROOM = 1 << 40

pairs = st.sampled_from([(1, 1), (1, 2), (2, 1), (3, 1), (1, 3)])
sizes = st.integers(1, 6)
boxes = st.tuples(sizes, sizes, st.sampled_from([16, 64, 256]))


def stream(rows, row, order):
    """Of an array of many rows: windows of `rows`, each of `row` elements apart, in any order."""
    dims = [(*rows, 0), (0, 0, 1)]
    steps = [rows[0] * row, rows[1] * row, 1]
    dims = tuple(tuple(d[n] for n in order) for d in dims)
    return Stream(tuple(steps[n] for n in order), 4, 1 << 16, dims=dims)


def elements(steps, box, begins=(0, 0, 0)):
    """What a box reads, one by one."""
    ranges = [range(b, b + size) for b, size in zip(begins, box)]
    return {sum(s * v for s, v in zip(steps, at)) for at in product(*ranges)}


orders = st.permutations([0, 1, 2])


def fresh(s, axis, size, room=ROOM):
    """What is new from one box to the next along an axis, in the first cache and in the second."""
    box = np.array([size], dtype=np.float64)
    found = s.fresh(np.array([axis]), box, box[:, axis], [room, room])
    return found[:, 0]


@given(pairs, boxes, orders)
def test_a_box_of_windows_has_each_element_once(rows, box, order):
    s, size = stream(rows, 256, order), [box[n] for n in order]
    pieces = pieces_of([s], np.array([size], dtype=np.float64), 1)
    ((found,),) = pieces.run * pieces.runs
    count = len(elements(s.strides, size))
    if 1 in box[:2] or max(rows) <= min(rows) * box[rows.index(min(rows))]:
        assert found == count
    assert count <= found <= prod(size)


@given(pairs, boxes, orders, st.sampled_from([0, 1]))
def test_what_comes_next_along_windows_is_what_they_did_not_reach(rows, box, order, moved):
    s, size = stream(rows, 256, order), [box[n] for n in order]
    axis = order.index(moved)
    new = float(fresh(s, axis, size)[0])
    begins = [size[n] if n == axis else 0 for n in range(3)]
    here, there = elements(s.strides, size), elements(s.strides, size, begins)
    share = len(there - here) / len(there)
    assert new <= 1.0
    if 1 == min(rows) == max(rows):
        assert new == pytest.approx(share)


def test_windows_of_rows_that_leave_the_first_cache_stay_in_the_second():
    """Rows 1 KiB apart share an eighth of the sets of the one, and of each page of the other."""
    s = stream((1, 1), 256, [0, 1, 2])
    for rows, first in ((30, 1 / 30), (34, 1.0)):
        box = (1, rows, 16)
        assert fresh(s, 0, box, 8 * PAGE)[0] == pytest.approx(first)
        assert fresh(s, 0, box, 8 * WAY)[1] == pytest.approx(1 / rows)
        assert fresh(s, 0, box, 1 << 8)[1] == 1.0
        assert np.all(fresh(s, -1, box) == 1.0), "of no axis"


@pytest.mark.parametrize("pitch", [64, 256, 1024, 1040, 4096, 4160])
@pytest.mark.parametrize("rows", [2, 6, 7, 9, 14, 24])
def test_rows_in_one_set_of_the_first_cache_push_each_other_out(pitch, rows):
    """A line of each row, read term by term: of a set that has too many, none is there again."""
    s = Stream((pitch, 1), 4, 1 << 22, dims=((1, 0), (0, 1)))
    pieces = pieces_of([s], np.array([[rows, 16]], dtype=np.float64), 1)
    ((kept,),) = stays(pieces.crowded()[0], 8 * PAGE, WAYS)
    sets = [row * pitch * s.item // LINE % SETS for row in range(rows)]
    fullest = max(map(sets.count, sets))
    assert kept == (1.0 if fullest < 8 else 0.0), fullest
