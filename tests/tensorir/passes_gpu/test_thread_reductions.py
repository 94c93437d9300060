"""Reductions that threads share: one part for each thread, combined once, in any order of loops."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import BLOCK, X, Y, bound, check_passes, program

from schedule import Schedule
from tensorir import Exchange, TensorIRError, parse, te, walk
from tensorir.passes.gpu.kernels import kernels
from tensorir.passes.gpu.thread_reductions import thread_reductions


def row_sum(count, place, *loops):
    """Sums of two rows, by loops inside of the blocks, outermost first."""
    block = f"""with block("D"):
    vb = spatial(2, b)
    vk = reduce({count}, {place})
    where({place} < {count})
    with init():
        D[vb] = 0.0
    D[vb] = D[vb] + A[vb, vk]"""
    lines = []
    for depth, text in enumerate([f"for b in {BLOCK}2):", *loops, block]):
        lines += ["    " * depth + line for line in text.splitlines()]
    return program("\n".join(lines), f"A: f32[2, {count}], D: f32[2]")


def counts(func, kind):
    return sum(isinstance(s, kind) for s in walk(func.body))


@pytest.mark.parametrize(
    ("extent", "exchanges"),
    [
        (1, 0),
        (2, 1),
        (3, 3),  # two steps, and the first lane tells the others
        (20, 6),
        (31, 6),
        (32, 5),
        (33, 5),  # the second warp has one lane
        (50, 5),
        (64, 5),
        (96, 5),
        (352, 5),
    ],
)
def test_any_number_of_threads(extent, exchanges):
    func = row_sum(
        2 * extent + 1, f"k * {extent} + t", "for k in range(3):", f"for t in {X}{extent}):"
    )
    assert counts(check_passes(func), Exchange) == exchanges


@pytest.mark.parametrize(
    "loops",
    [
        (f"for t in {X}32):", "for k in range(3):"),
        ("for k in range(3):", f"for t in {X}32):"),
        ("for k_0 in range(1):", f"for t in {X}32):", "for k in range(3):"),
    ],
)
def test_any_order_of_loops(loops):
    low = check_passes(row_sum(90, "k * 32 + t", *loops))
    assert counts(low, Exchange) == 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("x", "y"), [(4, 8), (8, 4), (8, 16), (32, 3), (3, 5), (6, 8), (1, 7), (5, 1), (64, 2)]
)
def test_two_axes(x, y):
    size = x * y + 3
    for loops in (
        (f"for u in {Y}{y}):", f"for t in {X}{x}):"),
        (f"for t in {X}{x}):", f"for u in {Y}{y}):"),
    ):
        check_passes(row_sum(size, f"k * {x * y} + u * {x} + t", "for k in range(2):", *loops))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("x", "y"), [(4, 8), (8, 6), (3, 4), (32, 2), (33, 2), (1, 5), (24, 4), (8, 40)]
)
@pytest.mark.parametrize("along", ["x", "y"])
def test_other_threads_have_other_elements(x, y, along):
    """Rows by one axis, sums by the other: groups of lanes, or of threads far apart."""
    rows, terms = (y, x) if along == "x" else (x, y)
    row, term = ("u", "t") if along == "x" else ("t", "u")
    func = program(
        f"""
for b in {BLOCK}1):
    for u in {Y}{y}):
        for t in {X}{x}):
            for k in range(2):
                with block("D"):
                    vi = spatial({rows}, {row})
                    vk = reduce({2 * terms - 1}, k * {terms} + {term})
                    where(k * {terms} + {term} < {2 * terms - 1})
                    with init():
                        D[vi] = -100.0
                    D[vi] = max(D[vi], A[vi, vk])
""",
        f"A: f32[{rows}, {2 * terms - 1}], D: f32[{rows}]",
    )
    check_passes(func)


def test_golden(golden):
    func = row_sum(90, "k * 32 + t", "for k in range(3):", f"for t in {X}32):")
    golden(str(thread_reductions(kernels(func))), "row_sum")
    golden(str(check_passes(func)), "row_sum_lowered")


def test_golden_of_several_warps(golden):
    func = row_sum(300, "k * 128 + t", "for k in range(3):", f"for t in {X}128):")
    golden(str(check_passes(func)), "row_sum_of_warps")


def test_warps_and_lanes(golden):
    """A warp for each row needs no shared memory, and nobody waits for other warps."""
    func = program(
        f"""
for b in {BLOCK}2):
    for w in thread("warp", 3):
        for k in range(2):
            for t in thread("lane", 32):
                with block("D"):
                    vi = spatial(6, b * 3 + w)
                    vk = reduce(50, k * 32 + t)
                    where(k * 32 + t < 50)
                    with init():
                        D[vi] = 0.0
                    D[vi] = D[vi] + A[vi, vk]
""",
        "A: f32[6, 50], D: f32[6]",
    )
    low = check_passes(func)
    assert counts(low, Exchange) == 5 and "shared" not in str(low)
    both = row_sum(200, "w * 32 + t", 'for w in thread("warp", 7):', 'for t in thread("lane", 32):')
    assert counts(check_passes(both), Exchange) == 5


STATISTICS = """
for b in thread("blockIdx.x", 3):
    for t in thread("threadIdx.x", 16):
        for k in range(3):
            with block("M"):
                vb = spatial(3, b)
                vk = reduce(40, k * 16 + t)
                where(k * 16 + t < 40)
                with init():
                    M[0] = -1000.0
                M[0] = max(M[0], A[vb, vk])
    for t_1 in thread("threadIdx.x", 16):
        for k_1 in range(3):
            with block("S"):
                vb = spatial(3, b)
                vk = reduce(40, k_1 * 16 + t_1)
                where(k_1 * 16 + t_1 < 40)
                with init():
                    S[0] = 0.0
                S[0] = S[0] + (A[vb, vk] - M[0])
    for t_2 in thread("threadIdx.x", 16):
        for k_2 in range(3):
            with block("D"):
                vb = spatial(3, b)
                vj = spatial(40, k_2 * 16 + t_2)
                where(k_2 * 16 + t_2 < 40)
                D[vb, vj] = A[vb, vj] + S[0]
"""


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_results_are_seen_by_all_threads(scope):
    """In memory of the block, or a copy in the registers of each."""
    buffers = [("M", "f32[1]", scope), ("S", "f32[1]", scope)]
    func = program(STATISTICS, "A: f32[3, 40], D: f32[3, 40]", buffers)
    check_passes(func)
    low = check_passes(
        program(STATISTICS.replace("16", "40"), "A: f32[3, 40], D: f32[3, 40]", buffers)
    )
    assert counts(low, Exchange) == 10  # 40 threads: two warps


def test_elements_of_serial_loops_have_parts_of_their_own():
    func = program(
        f"""
for b in {BLOCK}1):
    for k in range(3):
        for t in {X}40):
            for i in range(4):
                with block("D"):
                    vi = spatial(4, i)
                    vk = reduce(100, k * 40 + t)
                    where(k * 40 + t < 100)
                    with init():
                        D[vi] = 0.0
                    D[vi] = D[vi] + A[vi, vk]
""",
        "A: f32[4, 100], D: f32[4]",
    )
    check_passes(func)


def test_an_argmax_is_combined_as_a_whole():
    a = te.placeholder((4, 50), name="A")
    k = te.reduce_axis(50, name="k")
    m = te.compute((4,), lambda i: te.argmax(a[i, k], axis=k), name="M")
    sch = Schedule(te.create_prim_func([a, m], name="places"))
    block = next(b for b in sch.get_blocks() if sch.state.block(b).is_reduction)
    i, k = sch.get_loops(block)
    _, inner = sch.split(k, [None, 20])
    func = bound(sch.func, {i: "blockIdx.x", inner: "threadIdx.x"})
    rng = np.random.default_rng(3)
    low = check_passes(func, arrays=[rng.integers(-3, 4, (4, 50)).astype("float32")])
    assert counts(low, Exchange) == 2 * 6


def test_under_the_condition_of_another_axis():
    """The reduction is for the first row of threads; the others exchange with it all the same."""
    func = program(
        f"""
for b in {BLOCK}2):
    for u in {Y}3):
        for j in {X}8):
            E[b, u * 8 + j] = A[b, u * 8 + j]
    for t in {X}8):
        with block("D"):
            vb = spatial(2, b)
            vk = reduce(8, t)
            with init():
                D[vb] = 0.0
            D[vb] = D[vb] + A[vb, vk]
""",
        "A: f32[2, 24], E: f32[2, 24], D: f32[2]",
    )
    check_passes(func)


def test_other_statements_in_the_loops_of_the_reduction():
    """A tile is copied in each step, in the middle of what the threads reduce."""
    func = program(
        f"""
for b in {BLOCK}2):
    for k in range(3):
        for j in {X}16):
            with block("T"):
                vb = spatial(2, b)
                vj = spatial(48, k * 16 + j)
                T[vj % 16] = A[vb, vj]
        for t in {X}16):
            with block("D"):
                vb = spatial(2, b)
                vk = reduce(48, k * 16 + t)
                with init():
                    D[vb] = 0.0
                D[vb] = D[vb] + T[(vk + 1) % 16]
""",
        "A: f32[2, 48], D: f32[2]",
        [("T", "f32[16]", "shared")],
    )
    check_passes(func)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("D[vb] = 0.0", "D[vb] = 5.0", "block 'D' starts from .*5.0.* and cannot be reduced by"),
        ("D[vb] + A[vb, vk]", "D[vb] * 2.0 + A[vb, vk]", "block 'D' cannot be reduced by several"),
        (
            "spatial(2, b)",
            "spatial(2, k % 2)",
            "loop 'k' is a reduction of block 'D', which threads "
            "share, and chooses its element too",
        ),
    ],
)
def test_what_has_no_parts_is_refused(old, new, message):
    func = row_sum(90, "k * 32 + t", "for k in range(3):", f"for t in {X}32):")
    text = str(func)
    assert old in text
    with pytest.raises(TensorIRError, match=message):
        thread_reductions(parse(text.replace(old, new)))


def test_blocks_share_no_reduction():
    func = program(
        f"""
for b in {BLOCK}3):
    for t in {X}16):
        with block("D"):
            vk = reduce(48, b * 16 + t)
            with init():
                D[0] = 0.0
            D[0] = D[0] + A[vk]
""",
        "A: f32[48], D: f32[1]",
    )
    with pytest.raises(
        TensorIRError, match="'b', bound to blockIdx.x, is a reduction of block 'D'"
    ):
        thread_reductions(func)
