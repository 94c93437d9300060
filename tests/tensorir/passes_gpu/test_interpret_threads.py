"""Kernels in the interpreter: threads that wait, exchange, miss each other, and race."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import VerifyError, interpret, parse

ROW = np.arange(64, dtype="float32")

REVERSE = """
@prim_func
def reverse(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[64], scope="shared"):
            for k in range(2):
                S[t] = A[t]
                sync("block")
                D[t] = S[63 - t]
                sync("block")
"""

WARPS = """
@prim_func
def turn(A: f32[64], D: f32[64]):
    for y in thread("threadIdx.y", 2):
        for x in thread("threadIdx.x", 32):
            with alloc(R, f32[1], scope="local"):
                R[0] = A[y * 32 + x]
                R[0] = exchange(R[0], 31 - x)
                D[y * 32 + x] = R[0]
"""


def run(text, races=True, row=ROW):
    return interpret(parse(text), row, races=races)[0]


def refused(text, match, races=True):
    with pytest.raises(VerifyError, match=match):
        run(text, races)


def test_threads_see_what_others_wrote_before_they_waited():
    for races in (False, True):
        np.testing.assert_array_equal(run(REVERSE, races), ROW[::-1])


def test_lanes_exchange_within_their_warp():
    np.testing.assert_array_equal(run(WARPS), ROW.reshape(2, 32)[:, ::-1].ravel())


@pytest.mark.parametrize("n", [0, 1])
def test_a_wait_left_out_is_a_race(n):
    """Before what was written is read, and before it is written again."""
    parts = REVERSE.split('                sync("block")\n')
    text = [parts[0] + parts[1], parts[2]] if n == 0 else [parts[0], parts[1] + parts[2]]
    who = (
        r"race: thread \(threadIdx.x = \d+\) (reads|writes) S\[\d+\] and thread "
        r"\(threadIdx.x = \d+\) (reads|writes) it, and they do not wait"
    )
    refused('                sync("block")\n'.join(text), f"{who}|never written")


def test_a_wait_of_a_warp_orders_its_lanes_only():
    text = REVERSE.replace("block", "warp")
    refused(text, "race: thread")
    refused(text, "race: thread|never written", races=True)
    near = text.replace("63 - t", "t // 32 * 32 + 31 - t % 32")
    np.testing.assert_array_equal(run(near), ROW.reshape(2, 32)[:, ::-1].ravel())


def test_an_exchange_orders_no_memory():
    text = """
@prim_func
def far(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[64], scope="shared"):
            with alloc(R, f32[1], scope="local"):
                S[t] = A[t]
                R[0] = exchange(A[t], 0)
                D[t] = S[t // 32 * 32 + 31 - t % 32]
"""
    refused(text, r"race: thread \(threadIdx.x = 31\) writes S\[31\] and thread .* = 0\) reads")


def test_blocks_are_never_ordered():
    text = """
@prim_func
def blocks(A: f32[64], D: f32[64]):
    for b in thread("blockIdx.x", 2):
        for t in thread("threadIdx.x", 32):
            D[b * 32 + t] = A[b * 32 + t]
            sync("block")
            D[t] = A[t]
"""
    refused(text, r"race between blocks of threads: block \(0,\) (reads|writes) D\[0\]")
    run(text, races=False)


def test_kernels_run_in_order():
    text = """
@prim_func
def two(A: f32[64], D: f32[64]):
    with alloc(T, f32[64]):
        for b in thread("blockIdx.x", 64):
            T[b] = A[b]
        for t in thread("threadIdx.x", 64):
            D[t] = T[63 - t]
"""
    np.testing.assert_array_equal(run(text), ROW[::-1])


def test_divergence_names_who_waits_where():
    text = REVERSE.replace(
        "                S[t] = A[t]\n                sync",
        "                S[t] = A[t]\n                if t < 40:\n                    sync",
    )
    refused(
        text,
        r"wait in different places in function 'reverse': \(threadIdx.x = 0\) and 39 more at "
        r"sync\(\"block\"\) 1 in loops 'k' = 0; \(threadIdx.x = 40\) and 23 more at "
        r"sync\(\"block\"\) 2 in loops 'k' = 0|never written",
        races=False,
    )
    text = REVERSE.replace("range(2)", "range(t // 63 + 1)")
    refused(text, r"sync\(\"block\"\) 1 in loops 'k' = 1; .* at the end|at the end; ", races=False)


def test_missing_lanes():
    refused(
        WARPS.replace('"threadIdx.x", 32', '"threadIdx.x", 20').replace(
            '"threadIdx.y", 2', '"threadIdx.y", 1'
        ),
        r"thread \(threadIdx.y = 0, threadIdx.x = 0\) asks lane 31 of its warp, which has 20 lanes",
    )
    text = WARPS.replace(
        "                R[0] = exchange",
        "                if x < 7:\n                    R[0] = exchange",
    )
    refused(text, r"= 0\) and 13 more at exchange 1; .* 49 more at the end")


def test_local_memory_belongs_to_a_thread_and_shared_to_a_block():
    text = """
@prim_func
def own(A: f32[64], D: f32[64]):
    R = alloc(f32[1], scope="local")
    S = alloc(f32[1], scope="shared")
    for b in thread("blockIdx.x", 2):
        for t in thread("threadIdx.x", 32):
            R[0] = A[b * 32 + t]
            if t == 31:
                S[0] = R[0]
            sync("block")
            D[b * 32 + t] = R[0] + S[0]
"""
    last = np.repeat(ROW.reshape(2, 32)[:, 31], 32)
    np.testing.assert_array_equal(run(text), ROW + last)
    refused(
        text.replace(
            "                S[0] = R[0]",
            "                if b == 0:\n                    S[0] = R[0]",
        ),
        r"reads S\[0\], which was never written",
    )


STALE = """
@prim_func
def stale(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        for k in range(2):
            with alloc(S, f32[64], scope="shared"):
                if k == 0:
                    S[t] = A[t]
                sync("block")
                D[t] = S[t]
                sync("block")
"""


def test_memory_of_an_earlier_iteration_is_gone():
    refused(STALE, r"reads S\[0\], which was never written", races=False)


SYNC = '                sync("block")\n'


def test_parts_of_the_arena_overwrite_each_other():
    text = """
@prim_func
def arena(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 64, {"shared_bytes": 512, "shared_offsets": {"S": 0, "T": 256}}):
        with alloc(S, f32[64], scope="shared"):
            with alloc(T, f64[32], scope="shared"):
                S[t] = A[t]
                sync("block")
                if t < 32:
                    T[t] = 1.0
                sync("block")
                D[t] = S[63 - t]
"""
    text = with_annotations(text)
    np.testing.assert_array_equal(run(text), ROW[::-1])
    over = text.replace('"T": 256', '"T": 128')
    refused(over, r"reads S\[\d+\], which was never written", races=False)
    refused(over.replace(SYNC, "", 1), "race: thread")


def with_annotations(text):
    """As the printer writes annotations of a loop."""
    func = parse(text.replace(', {"shared_bytes": 512, "shared_offsets": {"S": 0, "T": 256}}', ""))
    from tensorir import replace
    from tensorir.passes.rewriting import with_body

    notes = {"shared_bytes": 512, "shared_offsets": {"S": 0, "T": 256}}
    return str(with_body(func, replace(func.body, annotations=notes)))


def test_lanes_of_one_thread_are_watched():
    """What a thread has alone is told to nobody but the lanes of its vectors."""
    func = parse("""
@prim_func
def f(A: f32[4]):
    for t in thread("threadIdx.x", 2):
        with alloc(S, f32[4], scope="local"):
            for j in vectorized(4):
                S[j // 2] = A[j]
""")
    with pytest.raises(VerifyError, match=r"loop 'j': iteration 0 writes S\[0\] and iteration 1"):
        interpret(func, np.ones(4, "float32"), races=True)
