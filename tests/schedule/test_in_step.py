"""Pipelines as they were before: the same part, where that is certain."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import Block, For, keeps_to_itself, parse, thread_fault, walk
from tensorir.analysis.in_step import in_step
from tensorir.passes.facts import lifetimes
from tensorir.verifier.kernels import kernels_of
from tensorir.verifier.thread_parts import part_of

STAGED = """
@prim_func
def f(A: f32[SIZE, 64], B: f32[64]):
    S = alloc(f32[SIZE, 64], scope="shared")
    R = alloc(f32[64], scope="local")
    for b in thread("blockIdx.x", 2):
        for t in thread("threadIdx.x", 32):
            with block("zero"):
                vi = spatial(64, b * 32 + t)
                R[vi] = 0.0
        for k in range(STEPS):
            for r in range(2):
                for t_1 in thread("threadIdx.x", 32):
                    with block("fetch"):
                        vk = spatial(SIZE, k * 2 + r)
                        vi = spatial(64, b * 32 + t_1)
                        S[vk, vi] = A[vk, vi]
            for t_2 in thread("threadIdx.x", 32):
                for r_1 in range(2):
                    with block("add"):
                        vi = spatial(64, b * 32 + t_2)
                        vk = reduce(SIZE, k * 2 + r_1)
                        R[vi] = R[vi] + S[vk, vi / 32 * 32 + (31 - vi % 32)]
        for t_3 in thread("threadIdx.x", 32):
            with block("store"):
                vi = spatial(64, b * 32 + t_3)
                B[vi] = R[vi]
""".replace("/ 32", "// 32")


def parts(func):
    (kernel,) = kernels_of(func)
    return {name: part_of(kernel, func.buffer(name)) for name in ("S", "R", "B")}


@pytest.mark.parametrize("size", ["16", "n"])
@pytest.mark.parametrize("stages", [[0, 1], [0, 3]])
def test_a_pipeline_is_asked_the_same_of_threads_as_before(size, stages):
    steps = "8" if size == "16" else "n // 2"
    sch = Schedule(parse(STAGED.replace("SIZE", size).replace("STEPS", steps)))
    assert thread_fault(sch.func) is None
    before, asked = parts(sch.func), lifetimes._keeps.cache_info().misses
    sch.pipeline("k", stages)
    after = parts(sch.func)
    assert all(after[name] is before[name] for name in before)
    assert lifetimes._keeps.cache_info().misses == asked


def test_statements_that_changed_places_are_in_their_order():
    sch = Schedule(parse(STAGED.replace("SIZE", "16").replace("STEPS", "8")))
    before = parts(sch.func)
    sch.pipeline("k", [0, 1], order=[1, 0])
    assert [b.name for b in walk(sch.state.loop("k").body) if isinstance(b, Block)][0] == "add"
    assert parts(sch.func)["S"] is before["S"]


PLACED = """
@prim_func
def f(A: f32[9], B: f32[9]):
    S = alloc(f32[9], scope="shared")
    for b in range(1):
        for k in range(9, annotations={"pipeline": STAGES}):
            for t in range(1):
                with block("fetch"):
                    v = spatial(9, k)
                    where(FETCH)
                    S[v] = A[v]
            for t_1 in range(1):
                with block("use"):
                    v = spatial(9, USED)
                    where(USE)
                    B[v] = S[v]
"""


@pytest.mark.parametrize(
    ("stages", "fetch", "used", "use", "told"),
    [
        ("[0, 1]", "k < 8", "k - 1", "1 <= k", True),
        ("[0, 1]", "k < 7", "k - 1", "1 <= k", True),
        ("[0, 1]", "k < 9", "k - 1", "1 <= k", False),  # fetches where there is no iteration
        ("[0, 1]", "k < 8", "k", "0 <= k", False),  # uses where there is none
        ("[1, 0]", "1 <= k", "k", "k < 8", False),  # is used before it is fetched
    ],
)
def test_what_only_says_that_it_is_a_pipeline_is_looked_at_as_it_is(stages, fetch, used, use, told):
    text = PLACED.replace("STAGES", stages).replace("FETCH", fetch)
    func = parse(text.replace("USED", used).replace("USE", use))
    loop = next(s for s in walk(func.body) if isinstance(s, For) and s.name == "k")
    assert (in_step(loop, func.buffer("S")) is not None) is told


def test_an_iteration_of_a_pipeline_reads_what_another_one_wrote():
    text = PLACED.replace("STAGES", "[0, 1]").replace("FETCH", "k < 8").replace("USED", "k - 1")
    func = parse(text.replace("USE", "1 <= k"))
    loops = {s.name: s.var for s in walk(func.body) if isinstance(s, For)}
    assert keeps_to_itself(func, loops["b"], func.buffer("S"))
    assert not keeps_to_itself(func, loops["k"], func.buffer("S"))
