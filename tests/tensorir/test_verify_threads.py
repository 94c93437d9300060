"""Parsed programs whose threads certainly meet are refused; those that may keep apart are not."""

from __future__ import annotations

import pytest

from tensorir import VerifyError, parse, verify

SHARED = """
@prim_func
def gather(T: f32[11, 5], J: i64[6], G: f32[6, 5]):
    L = alloc(f32[11, 5], scope="{scope}")
    for j in range(2):
        for i in parallel(6):
            with block("L"):
                v0 = spatial(11, {place})
                v1 = spatial(5, j)
                L[v0, v1] = T[v0, v1]
            with block("G"):
                vi = spatial(6, i)
                vj = spatial(5, j)
                G[vi, vj] = L[min(max(J[vi], 0), 10), vj]
"""
AGAIN = """
    for i_1 in range(6):
        with block("G_1"):
            vi = spatial(6, i_1)
            vj = spatial(5, 3)
            G[vi, vj] = L[0, 0]
"""
PICKED = "min(max(J[i], 0), 10)"


@pytest.mark.parametrize("scope", ["local", "global"])
def test_memory_that_all_threads_write(scope):
    text = SHARED.format(scope=scope, place=PICKED)
    verify(parse(text))  # each iteration has its own
    with pytest.raises(VerifyError, match=r"loop 'i' all write L\[.*J\[i\].*used outside of that"):
        verify(parse(text + AGAIN))
    verify(parse(SHARED.format(scope=scope, place="i") + AGAIN))
    verify(parse(text.replace("parallel(6)", "parallel(1)").replace("[6", "[6") + AGAIN))


def test_the_message_names_the_memory():
    with pytest.raises(VerifyError, match="in local memory, which is used outside"):
        verify(parse(SHARED.format(scope="local", place=PICKED) + AGAIN))


SUMS = """
@prim_func
def sums(A: f32[7, n], B: f32[7]):
    for i, k in grid(7, n):
        with block("B"):
            vi = spatial(7, i)
            vk = reduce(n, k)
            with init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
"""


def test_a_parallel_loop_of_a_reduction():
    text = SUMS.replace(
        "    for i, k in grid(7, n):", "    for k in parallel(n):\n     for i in range(7):"
    )
    with pytest.raises(VerifyError, match=r"'k' all write B\[i\], an argument of the function"):
        verify(parse(text))
    verify(
        parse(
            SUMS.replace(
                "    for i, k in grid(7, n):", "    for i in parallel(7):\n     for k in range(n):"
            )
        )
    )


ONE = """
@prim_func
def one(A: f32[8], B: f32[2]):
    for i in parallel(8):
        with block("B"):
            v = spatial(2, 1)
            w = spatial(8, i)
            where({where})
            B[v] = A[w]
"""


@pytest.mark.parametrize("where", ["i == 3", "i < 1", "7 <= i"])
def test_one_iteration_writes(where):
    verify(parse(ONE.format(where=where)))


@pytest.mark.parametrize("where", ["i < 2", "i != 3"])
def test_several_iterations_write(where):
    with pytest.raises(VerifyError, match=r"all write B\[1\]"):
        verify(parse(ONE.format(where=where)))


FEW = """
@prim_func
def few(A: f32[1], factor: i64 >= 1, B: f32[1]):
    for i in range({around}):
        for k in parallel({count}):
            with block("B"):
                v = spatial(1, 0)
                B[v] = A[v]
"""


def test_one_iteration_where_the_loop_around_has_any():
    """Schedules saw that 1 // factor iterations, if there are any, are of a factor of 1."""
    verify(parse(FEW.format(around="1 // factor", count="factor")))
    for around, count in (("factor", "factor"), ("1 // factor", "factor + 1")):
        with pytest.raises(VerifyError, match=r"'k' all write B\[0\]"):
            verify(parse(FEW.format(around=around, count=count)))
