"""Tiles of a pipelined loop have as many versions as iterations are under way."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import check_passes, doubled, tiled_matmul
from test_barriers import arrays_of, assert_all_needed, syncs

from tensorir import (
    Alloc,
    For,
    If,
    Seq,
    Store,
    Sync,
    Target,
    interpret,
    lower,
    parse,
    variables,
    walk,
)


def sizes(func):
    return {s.buffer.name: s.buffer.const_shape for s in walk(func.body) if isinstance(s, Alloc)}


def syncs_of(stmt):
    return [s for s in walk(stmt) if isinstance(s, Sync)]


def steps_of(func):
    """The loop over the steps in which all stages work; all of it where that is one."""
    found = [s for s in walk(func.body) if isinstance(s, For) and s.name.endswith("_all")]
    return found[0] if found else Seq(())


def staged(stages):
    def change(sch, k):
        sch.decompose_reduction("C", k)
        sch.pipeline(k, stages)

    return change


@pytest.mark.parametrize("shape", [(16, 16, 16), (16, 16, 13)])
def test_double_buffers(shape):
    """Two versions, and one wait for each step instead of two."""
    func = tiled_matmul(*shape, step=4, own=2, change=doubled)
    low = check_passes(func)
    small = sizes(lower(tiled_matmul(*shape, step=4, own=2), Target.parse("cuda")))
    found = sizes(low)
    assert found["A_shared"] == (2 * small["A_shared"][0],)
    assert syncs(low) == ["block"]
    assert_all_needed(low, *arrays_of(low))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("stages", "versions"), [([0, 0, 1], 2), ([0, 0, 2], 4), ([0, 1, 2], 4)])
@pytest.mark.parametrize("shape", [(16, 16, 20), (16, 16, 15)])
def test_as_many_versions_as_stages(shape, stages, versions):
    """However long the sum is: two or four tiles of 4, if these are not all of it."""
    low = check_passes(tiled_matmul(*shape, step=4, own=2, change=staged(stages)))
    assert sizes(low)["A_shared"] == (shape[0] * min(shape[2], 4 * versions),)
    assert len(syncs_of(steps_of(low))) <= 2
    if shape[2] % 4 == 0:  # what conditions of edges leave out is not always seen
        assert_all_needed(low, *arrays_of(low))


@pytest.mark.parametrize("stages", [[0, 0, 1], [0, 0, 2], [0, 1, 2]])
@pytest.mark.parametrize("shape", [(16, 16, 40), (16, 16, 61)])
def test_only_copies_ask_whether_there_is_a_step(shape, stages):
    """Edges of the arrays are conditions still."""
    low = lower(tiled_matmul(*shape, own=2, change=staged(stages)), Target.parse("cuda"))
    loop = steps_of(low)
    asked = [s for s in walk(loop) if isinstance(s, If) and loop.var in variables(s.cond)]
    steps = [s for s in asked if variables(s.cond) == {loop.var}]
    assert len(steps) <= sum(stage < max(stages) for stage in stages)
    assert all(s.buffer.scope == "shared" for a in steps for s in walk(a) if isinstance(s, Store))
    if shape[2] % 8 == 0:
        assert asked == steps


def test_pipelines_of_sizes():
    """However many iterations there are: none, fewer than stages, one more, many."""
    text = """
@prim_func
def rows(A: f32[n, 8], D: f32[n, 8]):
    S = alloc(f32[n, 8], scope="shared")
    for b in thread("blockIdx.x", 1):
        for k in range(n + 2, annotations={"pipeline": [0, 2]}):
            for i in thread("threadIdx.x", 8):
                if k < n:
                    S[k, i] = A[k, i]
            for j in thread("threadIdx.x", 8):
                if 2 <= k:
                    D[k - 2, j] = S[k - 2, 7 - j]
"""
    func = parse(text)
    for n in (0, 1, 2, 3, 7):
        a = np.arange(n * 8, dtype="float32").reshape(n, 8)
        low = lower(func, Target.parse("cuda"))
        found = interpret(low, a.ravel(), np.zeros(n * 8, "f4"), sizes={"n": n}, races=True)[0]
        np.testing.assert_array_equal(found.reshape(n, 8), a[:, ::-1])
