"""The part of a kernel that decides about a buffer: what it has, and when it is the same one."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import Block, For, keeps_to_itself, parse, thread_fault, walk
from tensorir.passes.facts import lifetimes
from tensorir.verifier.kernels import kernels_of
from tensorir.verifier.thread_parts import part_of

TWO = parse("""
@prim_func
def f(A: f32[64], B: f32[64]):
    S = alloc(f32[64], scope="shared")
    P = alloc(i64[64], scope="shared")
    for b in thread("blockIdx.x", 1):
        for t in thread("threadIdx.x", 64):
            with block("places"):
                vi = spatial(64, t)
                P[vi] = vi
        for t_1 in thread("threadIdx.x", 64):
            with block("fill"):
                vi = spatial(64, t_1)
                S[vi] = A[vi]
        for k in range(4):
            for t_2 in range(16):
                with block("use"):
                    vi = spatial(64, k * 16 + t_2)
                    B[vi] = S[vi] + 1.0
""")


def part(sch_or_func, name):
    func = getattr(sch_or_func, "func", sch_or_func)
    (kernel,) = kernels_of(func)
    return part_of(kernel, func.buffer(name))


def names(stmt):
    found = [s for s in walk(stmt) if isinstance(s, (Block, For))]
    return [s.name for s in found]


def test_a_part_has_what_touches_the_buffer():
    assert names(part(TWO, "P")) == ["b", "t", "places"]
    assert names(part(TWO, "S")) == ["b", "t_1", "fill", "k", "t_2", "use"]


def test_a_step_elsewhere_leaves_the_part_one_object():
    sch = Schedule(TWO)
    before = {name: part(sch, name) for name in ("S", "P", "B")}
    sch.unroll("t_2")
    assert all(part(sch, name) is before[name] for name in before)
    sch.split("k", [2, 2])
    assert part(sch, "P") is before["P"]
    assert part(sch, "S") is not before["S"]


DEPENDENT = """
@prim_func
def f(A: f32[64], B: f32[64]):
    P = alloc(i64[64], scope="shared")
    for t in thread("threadIdx.x", 64):
        with block("places"):
            vi = spatial(64, t)
            P[vi] = vi
    for t_1 in thread("threadIdx.x", 64):
        with block("move"):
            vi = spatial(64, t_1)
            B[P[vi]] = A[vi]
"""


def test_all_stays_where_memory_tells_what_is_touched():
    """Of P it takes the element that the thread itself has written; of B it may take any."""
    func = parse(DEPENDENT)
    kernels = kernels_of(func)
    moving = next(k for k in kernels if func.buffer("B") in k.uses)
    assert names(part_of(moving, func.buffer("B"))) == names(moving.stmt)


def test_loops_that_run_at_once_are_told_from_those_in_turn():
    """What one iteration leaves to a later one depends on it."""
    text = """
@prim_func
def f(A: f32[8, 64], B: f32[8, 64]):
    S = alloc(f32[64], scope="local")
    for t in thread("threadIdx.x", 64):
        for k in {kind}(8):
            with block("fill"):
                vk = spatial(8, k)
                vi = spatial(64, t)
                S[vi] = A[vk, vi]
            with block("use"):
                vk = spatial(8, k)
                vi = spatial(64, t)
                B[vk, vi] = S[vi]
"""
    loops = {}
    for kind in ("range", "unrolled", "vectorized"):
        func = parse(text.format(kind=kind))
        loops[kind] = next(s for s in walk(part(func, "S")) if isinstance(s, For) and s.name == "k")
        assert thread_fault(func) is None
    assert loops["range"].kind is loops["unrolled"].kind is not loops["vectorized"].kind


BOXES = """
@prim_func
def f(A: f32[66], B: f32[64]):
    S = alloc(f32[66], scope="shared")
    for b in range(4):
        for t in range(18):
            with block("fill"):
                vi = spatial(66, b * 16 + t)
                S[vi] = A[vi]
        for t_1 in range(16):
            with block("use"):
                vi = spatial(64, b * 16 + t_1)
                B[vi] = READ
"""


@pytest.mark.parametrize(("read", "kept"), [("S[vi] + S[vi + 2]", True), ("S[65 - vi]", False)])
def test_whether_a_loop_keeps_to_itself_what_it_reads_is_found_once(read, kept):
    sch = Schedule(parse(BOXES.replace("READ", read)))
    loop, shared = sch.state.loop("b").var, sch.func.buffer("S")
    found = lifetimes._keeps.cache_info()
    assert keeps_to_itself(sch.func, loop, shared) is kept
    sch.unroll("t")
    if kept:
        sch.bind("b", "blockIdx.x")
    assert keeps_to_itself(sch.func, loop, shared) is kept
    assert lifetimes._keeps.cache_info().misses - found.misses == 1
