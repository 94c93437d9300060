"""Rounds of shuffles that transpose tiles of all shapes."""

from __future__ import annotations

import pytest

from tensorir.passes.vectors.transpose_network import network

SIDES = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("block", [1, 2, 4, 16])
@pytest.mark.parametrize("rows", SIDES)
@pytest.mark.parametrize("lanes", SIDES)
def test_each_element_comes_to_its_place(rows, lanes, block):
    tile = [[(row, lane) for lane in range(lanes)] for row in range(rows)]
    rounds = network(rows, lanes, block)
    for step in rounds:
        made = {}
        for first, second, count, to, chosen in step:
            assert len(tile[first]) == len(tile[second]) == count
            both = tile[first] + tile[second]
            made[to] = [both[lane] for lane in chosen]
        tile = [made[to] for to in range(len(made))]
    assert tile == [[(row, lane) for row in range(rows)] for lane in range(lanes)]
    assert len(rounds) == max(rows, lanes).bit_length() - 1


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize(("rows", "lanes"), [(4, 2), (16, 4), (16, 8), (64, 8), (32, 16)])
def test_rows_that_are_read_together_come_to_their_places(rows, lanes, block):
    beside = rows // lanes
    tile = [[(n // lanes, n % lanes) for n in range(at, at + rows)]
            for at in range(0, rows * lanes, rows)]  # fmt: skip
    rounds = network(rows, lanes, block, beside)
    for step in rounds:
        made = {}
        for first, second, count, to, chosen in step:
            assert len(tile[first]) == len(tile[second]) == count == rows
            both = tile[first] + tile[second]
            made[to] = [both[lane] for lane in chosen]
        tile = [made[to] for to in range(len(made))]
    assert tile == [[(row, lane) for row in range(rows)] for lane in range(lanes)]
    assert len(rounds) == lanes.bit_length() - 1


def test_rounds_stay_in_blocks_and_then_move_them():
    rounds = network(16, 16, 4)
    within = [lane // 4 % 4 for lane in rounds[0][0][4]]
    assert within == sorted(within)
    assert all(lane % 4 == n % 4 for _, _, _, _, lanes in rounds[3] for n, lane in enumerate(lanes))
