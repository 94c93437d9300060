"""Tiles of a pipelined loop have as many versions as iterations are under way."""

from __future__ import annotations

import pytest
from gpu_programs import check_passes, doubled, tiled_matmul
from test_barriers import arrays_of, assert_all_needed, syncs

from tensorir import Alloc, walk


def sizes(func):
    return {s.buffer.name: s.buffer.const_shape for s in walk(func.body) if isinstance(s, Alloc)}


def staged(stages):
    def change(sch, k):
        sch.decompose_reduction("C", k)
        sch.pipeline(k, stages)

    return change


@pytest.mark.parametrize("shape", [(16, 16, 32), (16, 16, 29)])
def test_double_buffers(shape):
    """Two versions, and one wait for each step instead of two."""
    low = check_passes(tiled_matmul(*shape, own=2, change=doubled))
    small = sizes(check_passes(tiled_matmul(*shape, own=2)))
    found = sizes(low)
    assert found["A_shared"] == (2 * small["A_shared"][0],)
    assert syncs(low) == ["block"]
    assert_all_needed(low, *arrays_of(low))


@pytest.mark.parametrize(("stages", "versions"), [([0, 0, 1], 2), ([0, 0, 2], 4), ([0, 1, 2], 4)])
@pytest.mark.parametrize("shape", [(16, 16, 32), (16, 16, 29)])
def test_as_many_versions_as_stages(shape, stages, versions):
    """However long the sum is: two or four tiles of 8, if these are not all of it."""
    low = check_passes(tiled_matmul(*shape, own=2, change=staged(stages)))
    assert sizes(low)["A_shared"] == (shape[0] * min(shape[2], 8 * versions),)
    assert len(syncs(low)) <= 2
    assert_all_needed(low, *arrays_of(low))
