"""exchanges_in_memory: what lanes exchange goes through memory, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import Exchange, Sync, interpret, parse, walk
from tensorir.passes.gpu.exchanges_in_memory import exchanges_in_memory

TEXT = """
@prim_func
def swap(A: f32[3, {n}], B: f32[3, {n}]):
    R = alloc(f32[1], scope="local")
    for b in thread("blockIdx.x", 3):
        for t in thread("threadIdx.x", {n}):
            R[0] = exchange(A[b, t], {source})
            B[b, t] = R[0]
"""


@pytest.mark.parametrize("threads", [8, 32, 64, 96])
@pytest.mark.parametrize("source", ["t % 32 ^ 1", "t % 32 // 4 * 4", "0"])
def test_the_same_values_without_exchanges(threads, source):
    func = parse(TEXT.format(n=threads, source=source))
    moved = exchanges_in_memory(func)
    assert not any(isinstance(s, Exchange) for s in walk(moved.body))
    assert [b.scope for b in moved.buffers] == ["local", "shared"]
    array = np.arange(3 * threads, dtype=np.float32).reshape(3, threads)
    (want,) = interpret(func, array)
    np.testing.assert_array_equal(interpret(moved, array, races=True)[0], want)


def test_threads_wait_before_and_after_they_read():
    moved = exchanges_in_memory(parse(TEXT.format(n=40, source="t % 32")))
    assert sum(isinstance(s, Sync) for s in walk(moved.body)) == 2
    assert "min(" in repr(moved), "lanes of the last warp that do not exist are not read"


def test_programs_without_exchanges_stay_as_they_are():
    func = parse(TEXT.format(n=8, source="0").replace("exchange(A[b, t], 0)", "A[b, t]"))
    assert exchanges_in_memory(func) is func
