"""No accepted schedule has a race: what the sanitizer says about random ones, and what it found."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import REGISTRY, Schedule, ScheduleError
from schedule.debug.validate import difference, validate
from schedule.primitive import method, primitive
from schedule.state import LoopRef, State
from tensorir import Block, For, ForKind, IterKind, parse, replace, te, walk

sys.path.insert(0, str(Path(__file__).parent))
from random_schedules import Stress  # noqa: E402


def hasty_parallel(state: State, loop: LoopRef) -> tuple[State, None]:
    """parallel without its check."""
    node = replace(state.loop(loop), kind=ForKind.PARALLEL)
    return state.replace(state.loop_path(loop), node), None


@pytest.fixture
def parallel_unchecked():
    yield method(primitive(hasty_parallel))
    del REGISTRY["hasty_parallel"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_have_no_races(seed):
    """Values, bounds, uninitialised reads and races of what the fuzzer draws."""
    stress = Stress(random.Random(seed).choice)
    sch = Schedule(stress.workload())
    stress.run(sch, 14)
    validate(sch)


@pytest.mark.parametrize("seed", range(5))
def test_random_moves_have_no_races(seed):
    """Only legal moves, so that every step counts, each validated."""
    pick = random.Random(seed).choice
    sch = Schedule(Stress(pick).workload(), debug=True)
    for _ in range(6):
        name = pick(sorted(REGISTRY))
        moves = sch.legal_moves(name=name)
        if moves:
            sch.apply_move(pick(moves))


def test_the_sanitizer_sees_random_schedules_that_ignore_dependences(parallel_unchecked):
    """Reduction loops of random schedules, made parallel without a check, are all caught."""
    caught = 0
    for seed in range(20):
        stress = Stress(random.Random(seed).choice)
        sch = Schedule(stress.workload())
        stress.run(sch, 5)
        if any(loop.kind is ForKind.THREAD for loop in sch.state.loops()):
            continue  # beside GPU threads, parallel loops run one by one
        for block in (n for n in walk(sch.func.body) if isinstance(n, Block)):
            for it in block.iters:
                loops = {n.var: n for n in walk(sch.func.body) if isinstance(n, For)}
                loop = loops.get(it.binding)
                plain = loop is not None and loop.kind is ForKind.SERIAL
                if it.kind is not IterKind.REDUCE or not plain or (loop.const_extent or 0) < 2:
                    continue
                tried = sch.copy()
                try:
                    parallel_unchecked(tried, loop.name)
                except ScheduleError:  # it is inside of threads
                    continue
                assert difference(tried) is not None
                caught += 1
    assert caught >= 5


def columns():
    """C needs sums of neighbouring rows: B[i + j] is the sum of row i + j."""
    a = te.placeholder((12, 5), name="A")
    k = te.reduce_axis(5, name="k")
    b = te.compute((12,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((5, 8), lambda i, j: b[i + j] * 2.0, name="C")
    return te.create_prim_func([a, c], name="columns")


def rows():
    """Every element of a row of D needs the sum of that row."""
    a = te.placeholder((4, 3), name="A")
    k = te.reduce_axis(3, name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((4, 8), lambda i, j: c[i] + a[i, 0], name="D")
    return te.create_prim_func([a, d], name="rows")


def test_lanes_that_share_a_private_sum():
    """Each lane of compiled code added the whole row to the one sum that they share."""
    sch = Schedule(rows())
    sch.compute_at("C", "j")
    with pytest.raises(ScheduleError, match="different iterations of loop 'j' write the same"):
        sch.vectorize("j")
    sch.parallel("j")
    validate(sch)


def test_lanes_that_share_after_reorder():
    """Lanes had elements of their own in each row, and no longer with the rows inside."""
    sch = Schedule(columns())
    sch.compute_at("B", "j")
    sch.vectorize("j")
    validate(sch)
    with pytest.raises(ScheduleError, match="different iterations of loop 'j' write the same"):
        sch.reorder("j", "i_C")


def test_reorder_keeps_parallel_loops_out_of_vectorized_ones():
    sch = Schedule(columns())
    sch.parallel("i_C")
    sch.vectorize("j")
    with pytest.raises(ScheduleError, match="'i_C' is inside the vectorized loop 'j'"):
        sch.reorder("j", "i_C")


def test_padding_of_padding_is_no_part_of_what_it_pads(matmul_of_one):
    """The padded copy has more elements than its input; merged into that, it lost them."""
    sch = Schedule(matmul_of_one)
    sch.pad_einsum("C", [1, 1, 3])
    sch.pad_einsum("C", [1, 1, 2])
    with pytest.raises(ScheduleError, match="does not read all of 'B_pad' at its own variables"):
        sch.reverse_compute_inline("B_pad_pad")


@pytest.fixture
def matmul_of_one():
    a = te.placeholder((1, 1), name="A")
    b = te.placeholder((1, 1), name="B")
    k = te.reduce_axis(1, name="k")
    c = te.compute((1, 1), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def test_a_symbolic_loop_says_nothing_outside_of_it():
    """The last of the loops runs where n > 2; lowering took that for true in the one before."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name="twice"))
    sch.split("i_C", [None, 2])
    sch.partition("i_C_0", [1, None])
    kernel = build(sch)
    for size in range(1, 7):
        given = np.arange(size, dtype="float32")
        guarded = np.full(size + 4, -1.0, "float32")
        kernel(given, guarded[:size])
        np.testing.assert_array_equal(guarded, [*given * 2 + 1, -1, -1, -1, -1])
    validate(sch)


def test_memory_of_a_parallel_iteration_is_its_own():
    """The guard of the padded input, for elements that do not exist, moved it out of the loop."""
    n = te.var("n")
    a = te.placeholder((n + 1, 3), name="A")
    q, r = te.reduce_axis(3, name="q"), te.reduce_axis(2, name="r")
    b = te.compute((n + 1,), lambda i: te.sum(a[i, q], axis=q), name="B")
    c = te.compute((n,), lambda i: te.sum(b[i + r], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="sums"))
    _, inner = sch.split("i_C", [None, 3])
    sch.compute_at("B", "r")
    sch.parallel(inner)
    validate(sch)


def test_threads_in_an_unrolled_loop_have_memory_of_their_own():
    """The sum was allocated around the unrolled loop, so all threads added to the same one."""
    sch = Schedule(rows())
    sch.compute_at("C", "j")
    sch.unroll("i_D")
    sch.parallel("j")
    validate(sch)


PICKED = """
@prim_func
def picked(A: f32[11, 5, 3], J: i64[6], G: f32[6, 5]):
    S = alloc(f32[11, 5])
    for s, t, k in grid(11, 5, 3):
        with block("S"):
            vs = spatial(11, s)
            vt = spatial(5, t)
            vk = reduce(3, k)
            with init():
                S[vs, vt] = 0.0
            S[vs, vt] = S[vs, vt] + A[vs, vt, vk]
    for i, j in grid(6, 5):
        with block("G"):
            vi = spatial(6, i)
            vj = spatial(5, j)
            G[vi, vj] = S[min(max(J[vi], 0), 10), vj]
"""


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.partition("j", [None, 1]),
        lambda sch: sch.partition("j", [2, 3]),
        lambda sch: sch.decompose_reduction("S", "j"),
        lambda sch: sch.decompose_reduction("S", "i"),
    ],
)
@pytest.mark.parametrize("scope", ["local", "global"])
def test_no_step_makes_threads_share_what_was_their_own(step, scope):
    """Each thread sums the row that it picks; several may pick one row, in one memory a race."""
    sch = Schedule(parse(PICKED))
    sch.compute_at("S", "j")
    sch.set_scope("S", "S", scope) if scope == "local" else None
    sch.parallel("i")
    sch.reorder("j", "i")
    before = sch.func
    with pytest.raises(ScheduleError, match="would share it|repeats instances"):
        step(sch)
    assert sch.func is before


def test_threads_share_what_they_write_apart():
    """Rows of B are written by the thread of that row, and stay so in both parts."""
    sch = Schedule(rows())
    sch.parallel("i")
    first, last = sch.partition("j", [3, None])
    assert first != last
    validate(sch)
    sch = Schedule(parse(PICKED))
    sch.reorder("t", "s")
    sch.parallel("s")
    sch.partition("t", [2, None])
    validate(sch)
