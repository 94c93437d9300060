"""spmd: one nest for each kernel, threads that wait where a loop over them ends, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import BLOCK, X, Y, check_passes, matmul, program, tiled_matmul

from tensorir import (
    Alloc,
    For,
    ForKind,
    If,
    Sync,
    Target,
    TensorIRError,
    child_stmts,
    lower,
    walk,
)
from tensorir.passes import lower_blocks, lower_init
from tensorir.passes.gpu.axes import is_kernel, kernel_roots
from tensorir.passes.gpu.kernels import kernels
from tensorir.passes.gpu.spmd import spmd


def after(func):
    return spmd(lower_blocks(lower_init(kernels(func))))


def body(func):
    return repr(after(func)).partition(":\n")[2]


def sizes(func):
    return {s.buffer.name: s.buffer.const_shape for s in walk(func.body) if isinstance(s, Alloc)}


def test_tiled_matmul(golden):
    golden(str(after(tiled_matmul(32, 32, 16))), "tiled_matmul")


@pytest.mark.parametrize("shape", [(16, 32, 16), (30, 16, 13), (16, 16, 8), (17, 16, 9)])
def test_accumulators_live_across_steps_and_tiles_are_shared(shape):
    """What is in registers across k shrinks to what one thread has; tiles to those of a step."""
    low = check_passes(tiled_matmul(*shape))
    assert all(map(is_kernel, kernel_roots(low.body)))
    found = sizes(low)
    assert found["C_local"] == (16,)
    assert max(found["A_shared"][0], found["B_shared"][0]) <= 128


def test_large_tiles():
    """The matmul that GPU texts begin with: 64 sums a thread, two tiles of 4 KB."""
    low = lower(tiled_matmul(256, 256, 256, tile=128, step=8, own=8), Target.parse("cuda"))
    assert sizes(low) == {"C_local": (64,), "A_shared": (1024,), "B_shared": (1024,)}


STEPS = """
for b in thread("blockIdx.x", 4):
    for k in range(2):
        for i in thread("threadIdx.x", 32):
            with block("S"):
                vb = spatial(4, b)
                vi = spatial(32, i)
                S[vi] = A[vb, vi]
        for j in thread("threadIdx.x", 32):
            with block("D"):
                vb = spatial(4, b)
                vj = spatial(32, j)
                D[vb, vj] = S[31 - vj]
"""
SHARED = [("S", "f32[32]", "shared")]


def test_threads_wait_where_their_loops_end(golden):
    func = program(STEPS, buffers=SHARED)
    golden(str(after(func)), "steps")
    check_passes(func)


def test_what_is_outside_of_an_axis_is_for_its_first_thread(golden):
    """Statements side by side are one condition; the others wait before they go on."""
    func = program(
        f"""
for b in {BLOCK}4):
    for i in {Y}2):
        with block("S"):
            vb = spatial(4, b)
            vi = spatial(2, i)
            S[vi] = A[vb, vi]
        for j in {X}16):
            with block("D"):
                vb = spatial(4, b)
                vj = spatial(32, i * 16 + j)
                D[vb, vj] = S[vj // 16]
    with block("E"):
        vb = spatial(4, b)
        E[vb] = S[0] + S[1]
""",
        "A: f32[4, 32], D: f32[4, 32], E: f32[4]",
        SHARED,
    )
    golden(str(after(func)), "outside")
    check_passes(func)


def test_no_wait_is_under_a_condition_of_a_thread(golden):
    """A triangle of threads: all walk through the longest loop, and the condition moves inwards."""
    func = program(
        f"""
for b in {BLOCK}1):
    for i in {Y}3):
        for k in range(i + 1):
            for j in {X}4):
                D[i, k * 4 + j] = A[i, k * 4 + j] + 1.0
        for k in range(8 - i - 1):
            for j in {X}4):
                D[i, (k + i + 1) * 4 + j] = A[i, k * 4 + j]
    for k in range(32):
        if k < 31:
            for j in {X}4):
                if j == k % 4:
                    D[3, k] = A[3, k + 1]
        else:
            D[3, k] = A[3, 0]
""",
    )
    made = after(func)
    golden(str(made), "triangle")
    assert_uniform(made)
    check_passes(func)


def assert_uniform(func):
    """No Sync is under a condition, or in a loop, that speaks of a thread."""

    def visit(stmt, own, clean):
        if isinstance(stmt, Sync):
            assert clean, func
        if isinstance(stmt, For):
            if stmt.kind is ForKind.THREAD and "thread" in (stmt.thread or ""):
                own = {*own, stmt.var}
            clean = clean and not stmt.extent.variables & own
        if isinstance(stmt, If):
            clean = clean and not stmt.cond.variables & own
        for child in child_stmts(stmt):
            visit(child, own, clean)

    visit(func.body, set(), True)


def test_virtual_threads_of_two_axes_are_one_threads_work():
    func = program(
        f"""
for b in {BLOCK}2):
    for w in thread("vthread.y", 2):
        for v in thread("vthread.x", 2):
            for i in {X}8):
                S[w * 16 + v * 8 + i] = A[b, w * 16 + v * 8 + i]
    for u in thread("vthread.x", 4):
        for j in {X}8):
            D[b, u * 8 + j] = S[31 - u * 8 - j]
            D[b + 2, u * 8 + j] = A[b, u * 8 + j]
""",
        buffers=SHARED,
    )
    made = check_passes(func)
    kinds = [s.kind for s in walk(made.body) if isinstance(s, For)]
    assert kinds.count(ForKind.UNROLLED) == 3
    assert [s.thread for s in walk(made.body) if isinstance(s, For) and s.thread] == [
        "blockIdx.x",
        "threadIdx.x",
    ]


WARPS = """
for b in thread("blockIdx.x", 2):
    for w in thread("warp", 2):
        for i in thread("lane", 32):
            S[w * 32 + i] = A[b, w * 32 + i]
        T[w] = A[b, w]
    for w in thread("warp", 2):
        for i in thread("lane", 32):
            D[b, w * 32 + i] = S[63 - w * 32 - i] + T[w]
"""


def test_warps_and_lanes_are_threads(golden):
    buffers = [("S", "f32[64]", "shared"), ("T", "f32[2]", "shared")]
    func = program(WARPS, "A: f32[2, 64], D: f32[2, 64]", buffers)
    golden(str(after(func)), "warps")
    check_passes(func)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"lane", 32', '"lane", 16', "bound to lane, has extent 16; a warp has 32 lanes"),
        (
            "T[w] = A[b, w]",
            f"T[w] = A[b, w]\n    for t in {X}64):\n        D[b, t] = A[b, t]",
            "'t' is bound to threadIdx.x, and loop 'w' of the same kernel to warp",
        ),
    ],
)
def test_what_makes_no_threads_is_refused(old, new, message):
    text = WARPS.replace(old, new)
    buffers = [("S", "f32[64]", "shared"), ("T", "f32[2]", "shared")]
    with pytest.raises(TensorIRError, match=message):
        after(program(text, "A: f32[2, 64], D: f32[2, 64]", buffers))


def test_one_extent_for_an_axis():
    func = program(
        STEPS.replace('j in thread("threadIdx.x", 32)', 'j in thread("threadIdx.x", 16)'),
        buffers=SHARED,
    )
    with pytest.raises(TensorIRError, match="'i' and 'j' of one kernel are both bound to threadId"):
        after(func)


def test_conditions_on_memory_that_changes_are_refused():
    func = program(
        f"""
for b in {BLOCK}1):
    if S[0] < 1.0:
        for i in {X}32):
            S[i] = A[0, i]
""",
        buffers=SHARED,
    )
    with pytest.raises(TensorIRError, match="reads 'S', which the kernel writes"):
        after(func)


def test_a_kernel_keeps_its_inits(golden):
    """The init of a reduction at the root is run by the kernel, not in one of its own."""
    func = program(
        f"""
for k in range(4):
    for i in {X}8):
        with block("D"):
            vi = spatial(8, i)
            vk = reduce(4, k)
            with init():
                D[vi] = 0.0
            D[vi] = D[vi] + A[vk, vi]
""",
        "A: f32[4, 8], D: f32[8]",
    )
    golden(str(after(func)), "init")
    assert len(list(kernel_roots(check_passes(func).body))) == 1


def test_symbolic_rows():
    func = program(
        f"""
for b in {BLOCK}(n + 3) // 4):
    for i in {Y}4):
        for j in {X}8):
            with block("D"):
                vi = spatial(n, b * 4 + i)
                vj = spatial(8, j)
                where(b * 4 + i < n)
                D[vi, vj] = A[vi, vj] * 2.0
""",
        "A: f32[n, 8], D: f32[n, 8]",
    )
    for rows in (1, 4, 5):
        check_passes(func, arrays=[np.arange(rows * 8, dtype="float32").reshape(rows, 8)], n=rows)


def test_every_operation_is_in_a_kernel():
    low = check_passes(matmul(5, 7, 3))
    assert all(map(is_kernel, kernel_roots(low.body)))


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_memory_of_several_kernels_is_global(scope):
    """Nothing else outlives a kernel; each thread of the first one had written a copy."""
    func = program(
        f"""
for b in {BLOCK}2):
    for i in {X}8):
        with block("S"):
            vb = spatial(2, b)
            vi = reduce(8, i)
            with init():
                S[vb] = 0.0
            S[vb] = S[vb] + A[vb, vi]
for j in range(2):
    D[j] = S[1 - j]
""",
        "A: f32[2, 8], D: f32[2]",
        [("S", "f32[2]", scope)],
    )
    low = check_passes(func)
    assert {s.buffer.scope for s in walk(low.body) if isinstance(s, Alloc)} >= {"global"}


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("columns", [0, 4])
def test_kernels_without_work_are_left_out(rows, columns):
    func = program(
        f"""
for i in range({rows}):
    for j in {X}{max(columns, 1)}):
        for k in range({columns}):
            D[i, k] = A[i, k]
for m in range({rows}):
    for n in range({columns}):
        C[m, n] = A[m, n]
""",
        f"A: f32[{rows}, {columns}], C: f32[{rows}, {columns}], D: f32[{rows}, {columns}]",
        [],
    )
    low = lower(func, Target.parse("cuda"))
    roots = [root for root in kernel_roots(low.body)]
    assert len(roots) == (2 if rows and columns else 0) and all(map(is_kernel, roots))
