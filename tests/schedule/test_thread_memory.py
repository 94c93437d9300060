"""Memory that threads use in several loops: accumulators, tiles, results of shared reductions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import Seq, VerifyError, interpret, parse, prove, te
from tensorir.verifier import thread_loops

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402


def tiled(program, rows=16, columns=16, step=4, tile=4, decompose=True):
    """The matmul that every text on GPUs begins with: C in registers, tiles of A and B in shared
    memory, copied by all threads in each step of the loop over k, which is outside of them."""
    sch = Schedule(program)
    store = sch.cache_write("C", 0, "local")
    i, j, k = sch.get_loops("C")
    by, ty, ii = sch.split(i, [None, rows // tile, tile])
    bx, tx, jj = sch.split(j, [None, columns // tile, tile])
    ko, ki = sch.split(k, [None, step])
    sch.reorder(by, bx, ko, ty, tx, ki, ii, jj)
    sch.reverse_compute_at(store, bx)
    si, sj = sch.get_loops(store)[2:]
    sy, si = sch.split(si, [None, tile])
    sx, sj = sch.split(sj, [None, tile])
    sch.reorder(sy, sx, si, sj)
    threads = [[ty, sy], [tx, sx]]
    if decompose:
        init = sch.decompose_reduction("C", ko)
        threads = [[own, *loops] for own, loops in zip(sch.get_loops(init)[2:4], threads)]
    sch.bind(by, "blockIdx.y")
    sch.bind(bx, "blockIdx.x")
    sch.bind(threads[0], "threadIdx.y")
    sch.bind(threads[1], "threadIdx.x")
    for name in ("A", "B"):
        copy = sch.cache_read("C", name, "shared")
        sch.compute_at(copy, ko)
        fused = sch.fuse(*sch.get_loops(copy)[3:])
        _, y, x = sch.split(fused, [None, rows // tile, columns // tile])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    return sch


class TestAccumulators:
    @pytest.mark.parametrize("shape", [(8, 8, 4), (13, 9, 5)])
    def test_tiled_matmul(self, matmul, check, shape):
        sch = tiled(matmul(*shape), 8, 4, 4, 2)
        check(sch, compiled=False)
        prove(parse(str(sch.func)))
        small = tiled(matmul(7, 5, 3), 4, 4, 2, 2)
        assert race(small.func) is None and unseen(small.func) is None

    def test_symbolic_rows(self, golden):
        n = te.var("n")
        a = te.placeholder((n, 6), name="A")
        b = te.placeholder((6, 10), name="B")
        k = te.reduce_axis(6, name="k")
        c = te.compute((n, 10), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        sch = tiled(te.create_prim_func([a, b, c], name="rows"), 8, 8, 4, 4)
        golden(str(sch.func), "tiled")
        prove(parse(str(sch.func)))
        x = np.arange(66, dtype="float32").reshape(11, 6) % 7
        y = np.arange(60, dtype="float32").reshape(6, 10) % 5
        np.testing.assert_array_equal(interpret(sch.func, x, y)[0], x @ y)

    def test_init_that_is_still_in_the_reduction(self, matmul, check):
        """It runs before the loop over k, in the threads that the spatial loops give."""
        sch = tiled(matmul(7, 5, 3), 4, 4, 2, 2, decompose=False)
        check(sch, compiled=False)
        assert race(sch.func) is None and unseen(sch.func) is None

    def test_one_loop_alone_is_refused(self, matmul):
        sch = Schedule(matmul())
        store = sch.cache_write("C", 0, "local")
        i, j, k = sch.get_loops("C")
        sch.reorder(j, k, i)
        sch.reverse_compute_at(store, j)
        own = sch.get_loops(store)[-1]
        refused(sch.bind, i, "threadIdx.x", match="(?s)'C_local' is in local.*bind takes several")
        refused(sch.bind, [own], "threadIdx.x", match="'C_local' is in local memory")
        refused(sch.bind, [], "threadIdx.x", match="there is no loop to bind")
        refused(sch.bind, [i, i], "threadIdx.x", match="loop 'i' is named twice")
        sch.bind([i, own], "threadIdx.x")

    def test_all_axes_in_one_step(self, matmul):
        """What holds of each axis after the other holds of all at once, and replays."""
        sch = Schedule(matmul())
        store = sch.cache_write("C", 0, "local")
        i, j, k = sch.get_loops("C")
        sch.reorder(j, i, k)
        sch.reverse_compute_at(store, j)
        own = sch.get_loops(store)[-1]
        one = sch.copy()
        one.bind([i, own], "threadIdx.x")
        one.bind(j, "blockIdx.x")
        sch.bind([j, [i, own]], ["blockIdx.x", "threadIdx.x"])
        assert str(sch.func) == str(one.func)
        assert str(Schedule(matmul()).apply(sch.trace).func) == str(one.func)

    def test_all_axes_are_refused_as_each_is(self, matmul):
        sch = Schedule(matmul())
        i, j, k = sch.get_loops("C")
        axes = ["blockIdx.x", "threadIdx.x"]
        refused(sch.bind, [i], axes, match="one for each of the axes blockIdx.x, threadIdx.x")
        refused(sch.bind, i, axes, match="one for each of the axes")
        refused(sch.bind, [i, [i]], axes, match="loop 'i' is named twice")
        refused(sch.bind, [i, []], axes, match="there is no loop to bind to threadIdx.x")
        refused(sch.bind, [i, "q"], axes, match="there is no loop 'q'")
        refused(sch.bind, [j, i], axes, match="loop 'j', bound to blockIdx.x, is inside")
        refused(sch.bind, [i, k], axes[::-1], match="'k' is a reduction of block 'C'")


TEXT = """
@prim_func
def stages(A: f32[2, 8], D: f32[2, 8]):
    S = alloc(f32[2, 8], scope="{scope}")
    for b in thread("blockIdx.x", 2):
        for i in thread("threadIdx.x", 4):
            for p in range(2):
                with block("S"):
                    vb = spatial(2, b)
                    vi = spatial(8, {made})
                    S[vb, vi] = A[vb, vi]
        for j in thread("threadIdx.x", 4):
            for q in range(2):
                with block("D"):
                    vb = spatial(2, b)
                    vj = spatial(8, {used})
                    D[vb, vj] = S[vb, vj]
"""


@pytest.mark.parametrize(
    ("made", "used", "legal"),
    [
        ("i * 2 + p", "j * 2 + q", True),
        ("p * 4 + i", "q * 4 + j", True),
        ("i * 2 + p", "q * 4 + j", False),
        ("p * 4 + i", "q * 4 + 3 - j", False),
        ("i * 2 + p", "6 - j * 2 + q", False),
    ],
)
def test_elements_tell_the_thread(made, used, legal):
    """A thread finds in registers what it put there itself: the rule, and the checker."""
    local = parse(TEXT.format(scope="local", made=made, used=used))
    assert (unseen(local) is None) == legal
    if legal:
        prove(local)
    else:
        with pytest.raises(VerifyError, match="'S' is in local memory, which belongs to one thr"):
            prove(local)
    shared = parse(TEXT.format(scope="shared", made=made, used=used))
    assert unseen(shared) is None and race(shared) is None
    prove(shared)


TILE = """
@prim_func
def shifted(A: f32[12], D: f32[3, 4]):
    S = alloc(f32[12], scope="{scope}")
    for b in thread("blockIdx.x", 3):
        for i in thread("threadIdx.x", 4):
            with block("S"):
                vi = spatial(12, {made})
                S[vi] = A[vi]
        for j in thread("threadIdx.x", 4):
            with block("D"):
                vb = spatial(3, b)
                vj = spatial(4, j)
                D[vb, vj] = S[{used}]
"""


@pytest.mark.parametrize(
    ("made", "used", "legal"),
    [
        ("b * 4 + i", "vb * 4 + 3 - vj", True),
        ("b * 2 + i", "vb * 2 + 3 - vj", True),  # neighbours write some of the same elements
        ("b * 4 + i", "8 - vb * 4 + vj", False),
        ("b * 2 + i", "vb + vj", False),
    ],
)
def test_a_block_reads_what_it_wrote(made, used, legal):
    func = parse(TILE.format(scope="shared", made=made, used=used))
    assert (unseen(func) is None) == legal
    if legal:
        prove(func)
    else:
        with pytest.raises(VerifyError, match="'S' is in shared memory, which belongs to one blo"):
            prove(func)


def test_programs_from_texts_are_held_to_the_rules():
    func = parse(TEXT.format(scope="local", made="i * 2 + p", used="q * 4 + j"))
    with pytest.raises(VerifyError, match="belongs to one thread"):
        Schedule(func)
    with pytest.raises(VerifyError, match="belongs to one thread"):
        build(func, "c")
    text = TEXT.format(scope="shared", made="i * 2 + p", used="j * 2 + q")
    for old, new, match in [
        ('"threadIdx.x", 4)', '"threadIdx.w", 4)', "'threadIdx.w' of loop 'i' is no thread axis"),
        ('j in thread("threadIdx.x"', 'j in thread("blockIdx.x"', "one inside the other"),
    ]:
        assert old in text
        with pytest.raises(VerifyError, match=match):
            prove(parse(text.replace(old, new)))


UNEVEN = """
@prim_func
def uneven(A: f32[4, 4], N: i64[4], D: f32[4, 4]):
    for i in thread("threadIdx.y", 4):
        for p in range({steps}):
            for j in thread("threadIdx.x", 4):
                with block("D"):
                    vi = spatial(4, i)
                    vj = spatial(4, j)
                    D[vi, vj] = A[vi, vj]
"""


def test_threads_that_do_not_all_have_work():
    """They walk through the loop all the same, if it is known how often at the most."""
    prove(parse(UNEVEN.format(steps="1")))
    prove(parse(UNEVEN.format(steps="i")))
    with pytest.raises(VerifyError, match="'j', bound to .*, is in loop 'p' of the unknown ext"):
        prove(parse(UNEVEN.format(steps="N[i]")))


def row_sums(n=6, m=40):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m, name="k")
    s = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    d = te.compute((n, m), lambda i, j: a[i, j] - s[i], name="D")
    return te.create_prim_func([a, d], name="row_sums")


def shared_rows(scope, *axes):
    """A row a block of threads: its sum by all of them, which then take it off the elements."""
    sch = Schedule(row_sums())
    sch.set_scope("S", 0, scope)
    i = sch.get_loops("D")[0]
    sch.bind(i, "blockIdx.x")
    sch.compute_at("S", i)
    for block in ("S", "D"):
        loop = sch.get_loops(block)[1]
        split = sch.split(loop, [None, 4, 2] if len(axes) > 1 else [None, 8])
        for part, axis in zip(split[1:], axes):
            sch.bind(part, axis)
    return sch


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize("axes", [("threadIdx.x",), ("threadIdx.y", "threadIdx.x")])
def test_all_threads_have_the_result_of_a_reduction(scope, axes, check):
    sch = shared_rows(scope, *axes)
    check(sch, compiled=False)
    assert race(sch.func) is None and unseen(sch.func) is None
    prove(parse(str(sch.func)))


def test_serial_and_thread_loops_of_a_reduction_in_any_order(check):
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1)):
        sch = Schedule(row_sums())
        k = sch.split(sch.get_loops("S")[1], [5, 4, 2])
        sch.reorder(*[k[n] for n in order])
        sch.bind(k[1], "threadIdx.y")
        sch.bind(k[2], "threadIdx.x")
        check(sch, compiled=False)
        assert race(sch.func) is None and unseen(sch.func) is None


BESIDE = """
@prim_func
def f(A: f32[8], B: f32[8], C: f32[8]):
    T = alloc(f32[1], scope="local")
    for i in thread("blockIdx.x", 8):
        with block("T"):
            vi = spatial(8, i)
            T[0] = A[vi] * 2.0
        with block("B"):
            vi = spatial(8, i)
            B[vi] = T[0] + 1.0
    for j in range(8):
        with block("C"):
            vj = spatial(8, j)
            C[vj] = A[vj] + 3.0
    for k in range(8):
        with block("D"):
            vj = spatial(8, k)
            C[vj] = {read} + 3.0
"""


@pytest.mark.parametrize(("read", "asked"), [("B[vj]", []), ("A[7 - vj]", []), ("T[0]", ["T"])])
def test_steps_on_nests_without_threads_ask_for_what_these_share_with_kernels(
    read, asked, monkeypatch
):
    """What kernels do to global memory is as it was; what each block had is all blocks' now."""
    both = parse(BESIDE.format(read=read))
    kernel, *nests = both.body.stmts
    before, after = (replace(both, body=Seq((kernel, nest))) for nest in nests)
    found, ask = [], thread_loops.memory_fault

    def noted(func, kernels, buffers):
        found.extend(buffer.name for buffer in buffers)
        return ask(func, kernels, buffers)

    monkeypatch.setattr(thread_loops, "memory_fault", noted)
    told = thread_loops.thread_fault(after, before)
    assert found == asked
    assert told == thread_loops.thread_fault(after) and (told is None) == (not asked)
