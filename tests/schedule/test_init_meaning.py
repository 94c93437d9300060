"""An init means one thing, in the interpreter, in C and in every order of the loops."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import VerifyError, interpret, parse, verify
from tensorir.passes.lower_init import lower_init

TEXT = """
@prim_func
def f(A: f32[{size}], B: f32[4]):
    for i, k in grid(4, {extent}):
        with block("B"):
            vi = spatial(4, i)
            vk = reduce({size}, {binding})
            where({where})
            with init():
                B[vi] = 2.0
            B[vi] = B[vi] + A[vk]
"""


def program(extent, binding, where="0 <= k"):
    return parse(TEXT.format(size=64, extent=extent, binding=binding, where=where))


A = np.arange(1, 65, dtype="float32")

ONCE = [
    (8, "k", "0 <= k", lambda i, k: k),
    (8, "k + 1", "0 <= k", lambda i, k: k + 1),
    (8, "(k + 3) % 8", "0 <= k", lambda i, k: (k + 3) % 8),
    (8, "7 - k", "0 <= k", lambda i, k: 7 - k),
    (8, "k * 5", "3 <= k", lambda i, k: k * 5 if k >= 3 else None),
    (8, "k", "k < i", lambda i, k: k if k < i else None),
    (8, "k + i", "i + k != 3", lambda i, k: k + i if i + k != 3 else None),
    (8, "k", "8 <= k", lambda i, k: None),
    (0, "k", "0 <= k", lambda i, k: k),
]


@pytest.mark.parametrize("row", ONCE, ids=lambda row: f"{row[1]} where {row[2]}")
def test_an_init_runs_once_whichever_instances_there_are(row):
    extent, binding, where, index = row
    func = program(extent, binding, where)
    expected = np.full(4, 2.0, "float32")
    for i in range(4):
        for k in range(extent):
            at = index(i, k)
            expected[i] += 0 if at is None else A[at]
    sch = Schedule(func)
    apart = Schedule(func)
    apart.decompose_reduction("B", "i" if "i" in binding else "k")
    other = Schedule(func)
    other.reorder("k", "i")
    for made in (func, sch.func, apart.func, other.func):
        verify(made)
        np.testing.assert_array_equal(interpret(made, A)[0], expected)
        np.testing.assert_array_equal(interpret(made, A, races=True)[0], expected)
        np.testing.assert_array_equal(build(made)(A), expected)


EMPTY = program(0, "k")


@pytest.mark.parametrize("move", Schedule(EMPTY).legal_moves(), ids=str)
def test_no_move_leaves_out_the_init_of_a_sum_without_terms(move):
    sch = Schedule(EMPTY)
    sch.apply_move(move)
    np.testing.assert_array_equal(interpret(sch.func, A)[0], np.full(4, 2.0, "float32"))


@pytest.mark.parametrize("factors", [[2, 3], [1, 1], [4]], ids=str)
def test_a_loop_without_iterations_gets_none(factors):
    refused(Schedule(EMPTY).split, "k", factors, match="has no iterations, and with factors")
    sch = Schedule(EMPTY)
    sch.split("k", [*factors, None])
    np.testing.assert_array_equal(interpret(sch.func, A)[0], np.full(4, 2.0, "float32"))


REPEATED = [(8, "k * k // 2"), (8, "k // 2"), (8, "k % 4"), (100, "k * k // 200")]


@pytest.mark.parametrize("row", REPEATED, ids=lambda row: row[1])
def test_instances_that_repeat_are_refused_at_every_door(row):
    func = program(*row)
    for door in (verify, Schedule, build):
        with pytest.raises(VerifyError, match="loop 'k' may repeat instances of block 'B'"):
            door(func)


AGAIN = """
@prim_func
def f(A: f32[4, 8], B: f32[4]):
    for i, t, k in grid(4, 3, 8):
        with block("B"):
            vi = spatial(4, i)
            vk = reduce(8, k)
            with init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("steps", [
    [("reorder", ("k", "t"))],
    [("fuse", ("t", "k"))],
    [("reorder", ("t", "i")), ("reorder", ("k", "t"))],
    [("split", ("k", [2, None])), ("reorder", ("k_0", "t"))],
], ids=str)  # fmt: skip
def test_a_loop_that_computes_a_sum_again_stays_outside(steps):
    sch = Schedule(parse(AGAIN))
    a = np.arange(32, dtype="float32").reshape(4, 8)
    *before, (last, args) = steps
    for name, given in before:
        getattr(sch, name)(*given)
    with pytest.raises(ScheduleError, match="may repeat instances of block 'B'"):
        getattr(sch, last)(*args)
    np.testing.assert_array_equal(interpret(sch.func, a)[0], a.sum(axis=1))
    np.testing.assert_array_equal(build(sch)(a), a.sum(axis=1))


def test_spatial_values_that_repeat_around_a_sum():
    text = AGAIN.replace("spatial(4, i)", "spatial(4, i // 2)").replace(
        "i, t, k in grid(4, 3", "i, k in grid(4"
    )
    a = np.arange(32, dtype="float32").reshape(4, 8)
    want = a.sum(axis=1)[:2]
    sch = Schedule(parse(text))
    with pytest.raises(ScheduleError, match="loop 'i' may repeat instances of block 'B'"):
        sch.reorder("k", "i")
    np.testing.assert_array_equal(build(sch)(a)[:2], want)
    whole = np.zeros(4, "float32")
    np.testing.assert_array_equal(interpret(sch.func, a, whole)[0][:2], want)


OUTER = """
@prim_func
def f(A: f32[6, 8], C: f32[6]):
    for i, k_0 in grid(6, 2):
        with block("outer"):
            vi = spatial(6, i)
            vo = reduce(2, k_0)
            for k_1 in range(4):
                with block("C"):
                    wi = spatial(6, vi)
                    wk = reduce(8, vo * 4 + k_1)
                    with init():
                        C[wi] = {start}
                    C[wi] = C[wi] + A[wi, wk]
"""

REFUSED = [
    (OUTER.format(start="1.0"), "which block 'outer' around it runs one part at a time"),
    (AGAIN.replace("B[vi] = 0.0", "B[vi] = B[vi] + 1.0"), "reads 'B', its own result"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=lambda v: v[:30])
def test_inits_that_would_not_start_a_sum_once(text, message):
    for door in (verify, Schedule, build):
        with pytest.raises(VerifyError, match=message):
            door(parse(text))


LATE = """
@prim_func
def f(A: f32[4, 8], C: f32[4]):
    T = alloc(f32[4])
    for i, k in grid(4, 8):
        with block("T"):
            vi = spatial(4, i)
            T[vi] = A[vi, 0]
        with block("C"):
            vi = spatial(4, i)
            vk = reduce(8, k)
            with init():
                C[vi] = T[vi]
            C[vi] = C[vi] + A[vi, vk]
"""


def test_an_init_that_reads_what_the_reduction_writes():
    for door in (verify, Schedule, build):
        with pytest.raises(VerifyError, match="starts from 'T', which block 'T' would write after"):
            door(parse(LATE))


OUTSIDE = """
@prim_func
def unit(A: f32[4, 3], C: f32[4, 1]):
    for i, a, k, b in grid(4, 3, 3, 2):
        with block("C"):
            vi = spatial(4, i)
            vj = spatial(1, 0)
            vk = reduce(3, k)
            where(a * 2 + b < 1)
            with init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk]
"""


def test_a_condition_on_a_loop_of_no_variable_is_one_of_the_init_too():
    """The loop of an axis of one element, split: two of three iterations of its outer part have no
    term, and must not start the sum again."""
    a = np.arange(12, dtype="float32").reshape(4, 3)
    func = parse(OUTSIDE)
    for program in (func, lower_init(func)):
        np.testing.assert_array_equal(interpret(program, a)[0], a.sum(1, keepdims=True))
