"""What a step costs, in calls of functions: as many on every machine, whatever else runs there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backends import source_text
from schedule import Schedule
from schedule.library import gpu
from tensorir import conjuncts, parse
from tests.counted import calls

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import schedule_speed  # noqa: E402


@pytest.mark.parametrize(("name", "most"), [("tiles fit", 25_000), ("tiles leave a rest", 26_000)])
def test_the_schedule_of_a_product(name, most):
    """A fifth more than it is in a process of its own: what other tests left in caches counts."""
    sizes = schedule_speed.SIZES[name]
    schedule_speed.scheduled(schedule_speed.matmul(*sizes(0)))
    assert calls(lambda: schedule_speed.scheduled(schedule_speed.matmul(*sizes(1)))) < most


NEST = """
@prim_func
def f(A: f32[8, 1003], C: f32[8]):
    for i, k in grid(8, 1003):
        with block("C"):
            vi = spatial(8, i)
            vk = {kind}(1003, k){init}
            C[vi] = C[vi] + A[vi, vk]
"""
INIT = """
            with init():
                C[vi] = 0.0"""


def kind_of_a_loop(kind, init):
    """The calls that it takes to unroll a loop of a nest that a split has left a rest in."""
    sch = Schedule(parse(NEST.format(kind=kind, init=init)))
    outer, inner = sch.split("k", [None, 8])
    sch.reorder(inner, outer)
    return calls(lambda: sch.unroll("i"))


def test_what_a_step_does_not_change_is_not_proved_again():
    """That the sum has each term once depends on extents, bindings and predicates alone."""
    assert kind_of_a_loop("reduce", INIT) - kind_of_a_loop("opaque", "") < 100


TASK = """
@prim_func
def f(A: f32[{n}, 4, 18], C: f32[{n}, 4, 16]):
    B = alloc(f32[4, 18])
    for i in range({n}):
        for j in range({shared}):
            {makers}
                with block("B"):
                    vi = spatial({n}, i)
                    vj = spatial(4, {j})
                    vk = spatial(18, k * 5 + l)
                    where(k * 5 + l < 18)
                    B[vj, vk] = A[vi, vj, vk] * 2.0
            {readers}
                with block("C"):
                    vi = spatial({n}, i)
                    vj = spatial(4, {j})
                    vk = spatial(16, k)
                    C[vi, vj, vk] = B[vj, vk] + B[vj, vk + 2]
"""


@pytest.mark.parametrize("kept", ["of each task", "of each row of a task"])
def test_what_a_task_keeps_to_itself_is_seen_at_once(kept):
    """Whether what makes it and what reads it have a loop of the task in common, or none."""

    def threaded(n):
        apart = kept == "of each task"
        loops = "for m, k, l in grid(4, 4, 5):" if apart else "for k, l in grid(4, 5):"
        reads = "for m, k in grid(4, 16):" if apart else "for k in range(16):"
        shared, j = (1, "m") if apart else (4, "j")
        text = TASK.format(n=n, shared=shared, j=j, makers=loops, readers=reads)
        sch = Schedule(parse(text))
        return calls(lambda: sch.parallel("i"))

    threaded(12)
    assert threaded(8) < 3_200


REST = """
@prim_func
def f(A: f32[59, 59], C: f32[59, 59]):
    for i, j in grid(59, 59):
        with block("C"):
            vi = spatial(59, i)
            vj = spatial(59, j)
            C[vi, vj] = A[vi, vj]
"""


def test_parts_of_a_predicate_are_not_weighed_against_each_other_again():
    """Other loops over the same iterations leave out what was left out before."""

    def fused(size):
        sch = Schedule(parse(REST.replace("59", str(size))))
        (i, ii), (j, jj) = sch.split("i", [None, 8]), sch.split("j", [None, 8])
        sch.reorder(i, j, ii, jj)
        found = calls(lambda: sch.fuse(i, j))
        assert len(conjuncts(sch.state.block("C").predicate)) == 2
        return found

    fused(61)
    assert fused(59) < 1_450


def test_the_product_for_gpus():
    """Its 53 steps ask what threads may do 33 times; each is to pay for what it changes."""

    def scheduled(size):
        sch = Schedule(schedule_speed.matmul(size, size, size))
        gpu.matmul(sch, "C")
        return sch.func

    func = scheduled(256)
    source_text(func, "cuda")
    assert calls(lambda: scheduled(320)) < 480_000
    func = scheduled(384)
    assert calls(lambda: source_text(func, "cuda")) < 220_000


def turn_beside(count):
    """The calls of a new layout in a program of `count` more intermediates, with parallel loops."""
    pairs = [(f"T{n}", f"C{n}") for n in range(count + 2)]
    outputs = ", ".join(f"{c}: f32[16, 24]" for _, c in pairs)
    nests = [(t, "A") for t, _ in pairs] + [(c, t) for t, c in pairs]
    text = f"@prim_func\ndef f(A: f32[16, 24], {outputs}):\n"
    text += "".join(f"    {t} = alloc(f32[16, 24])\n" for t, _ in pairs)
    for to, source in nests:
        text += f"""
    for i, j in grid(16, 24):
        with block("{to}"):
            vi = spatial(16, i)
            vj = spatial(24, j)
            {to}[vi, vj] = {source}[vi, vj] + 1.0
"""
    sch = Schedule(parse(text))
    sch.parallel(sch.get_loops("C1")[0])
    return calls(lambda: sch.transform_layout("T0", "T0", "i, j: j, i"))


def test_nests_that_a_step_leaves_alone_cost_it_little():
    """Two more nests: the names of their loops and blocks, and the look that nothing changed."""
    assert turn_beside(22) - turn_beside(2) < 20 * 900


BLOCKS = """
@prim_func
def f(A: f32[4096]{params}):
    for b in thread("blockIdx.x", 16):
        for k in range(4):
            for t in thread("threadIdx.x", 64):
                with block("copy"):
                    vi = spatial(4096, b * 256 + k * 64 + t)
                    B0[vi] = A[vi]
{more}
"""


def unroll_beside(count):
    """The calls of unrolling a loop of a kernel in which `count` more blocks use more buffers."""
    more = "".join(
        f"""
        for t_{n} in thread("threadIdx.x", 64):
            for j_{n} in range(4):
                with block("move_{n}"):
                    vi = spatial(4096, b * 256 + t_{n} * 4 + j_{n})
                    B{n}[vi] = A[vi] + {n}.0
"""
        for n in range(1, count + 1)
    )
    params = "".join(f", B{n}: f32[4096]" for n in range(count + 1))
    sch = Schedule(parse(BLOCKS.format(params=params, more=more)))
    _, inner = sch.split("k", [None, 2])
    return calls(lambda: sch.unroll(inner))


def test_threads_are_asked_about_what_a_step_changes():
    """Each buffer costs the look that tells that nothing has changed, and no proof: 250 calls; what
    becomes of nodes that have gone meanwhile counts too."""
    assert unroll_beside(24) - unroll_beside(4) < 40_000
