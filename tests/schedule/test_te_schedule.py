"""te.create_schedule: the texts of TVM's old tutorials run, and become ordinary traces."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError, create_schedule
from tensorir import TensorIRError, te


def same_as(s, check, golden=None, name=""):
    """The trace replays on the plain definition, and the result computes the definition."""
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    if golden is not None:
        golden(str(s.func), name)
    check(s.schedule)


def test_vector_add(check, golden):
    n = 37
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], factor=8)
    s[C].parallel(bx)
    s[C].vectorize(tx)
    same_as(s, check, golden, "vector_add")
    a, b = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    np.testing.assert_array_equal(build(s)(a, b), a + b)


def test_symbolic_vector_add():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(s[C].op.axis[0], factor=16)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    a = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(build(s)(a, a), a * 2)


def test_matmul_of_the_cpu_tutorial(check, golden):
    M, N, K, bn = 24, 32, 20, 8
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    packedB = te.compute(
        (N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB"
    )
    C = te.compute(
        (M, N),
        lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, te.floormod(n, bn)], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    # Allocate write cache
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    # Write cache is computed at no
    s[CC].compute_at(s[C], no)
    # New inner axes
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    # parallel
    s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    same_as(s, check, golden, "matmul")


def test_plain_matmul(check):
    M, N, K = 10, 12, 7
    k = te.reduce_axis((0, K), name="k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    C = te.compute((M, N), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
    (k,) = s[C].op.reduce_axis
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    s[C].vectorize(yi)
    fused = s[C].fuse(xo, yo)
    s[C].parallel(fused)
    same_as(s, check)


def row_sums(n=9, m=22):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    return A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")


def test_reduction_with_rfactor(check, golden):
    _, B = row_sums()
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=4)
    s[B].parallel(xo)
    s[B].unroll(s[B].op.reduce_axis[0])
    s[BF].compute_at(s[B], xi)
    first, row = s[BF].op.axis
    s[BF].reorder(row, s[BF].op.reduce_axis[0], first)
    s[BF].vectorize(first)
    same_as(s, check, golden, "rfactor")
    assert s.schedule.numerics == "reassociated"


def test_scan(check):
    m, n = 6, 10
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_init].split(s_init.op.axis[1], factor=4)
    s[s_init].parallel(xo)
    s[s_init].vectorize(xi)
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=4)
    s[s_update].parallel(xo)
    s[s_update].vectorize(xi)
    same_as(s, check)
    s[s_update].parallel(s_update.op.axis[0])
    with pytest.raises(ScheduleError, match="uses what block"):
        s.normalize()


def test_scan_with_stages(check):
    m, n = 5, 6
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = te.scan(s_init, s_update_s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=4)
    s[s_update_s1].compute_at(s[s_update_s2], s_update_s2.op.axis[0])
    same_as(s, check)


def test_two_outputs(check):
    A = te.placeholder((4, 6), name="A")
    B0, B1 = te.compute((4, 6), lambda i, j: (A[i, j] + 2.0, A[i, j] * 3.0), name="B")
    s = te.create_schedule(B0.op)
    s[B1].vectorize(s[B0].op.axis[1])
    same_as(s, check)


def stages(n=12, m=6):
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] * 2.0, name="C")
    return A, B, C


@pytest.mark.parametrize("first", ["consumer", "producer"])
def test_stages_are_scheduled_in_any_order(check, first):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    if first == "producer":
        s[B].vectorize(B.op.axis[1])
        s[B].compute_at(s[C], C.op.axis[0])
        s[C].vectorize(C.op.axis[1])
        s[C].parallel(C.op.axis[0])
    else:
        s[C].parallel(C.op.axis[0])
        s[C].vectorize(C.op.axis[1])
        s[B].compute_at(s[C], C.op.axis[0])
        s[B].vectorize(B.op.axis[1])
    same_as(s, check)
    assert str(s.func).count("vectorized(6)") == 2


def test_inline_and_back(check):
    _, B, C = stages()
    s = te.create_schedule(C)
    s[B].compute_inline()
    assert s.schedule.get_blocks() == ["C"]
    same_as(s, check)
    s[B].compute_root()
    assert s.schedule.get_blocks() == ["B", "C"]


def test_cache_read(check):
    A, B = row_sums()
    s = te.create_schedule(B.op)
    AA = s.cache_read(A, "local", [B])
    i, k = s[AA].op.axis
    s[AA].compute_at(s[B], B.op.axis[0])
    s[AA].vectorize(s[AA].split(k, nparts=3)[1])
    same_as(s, check)
    assert str(i) == "ax0"


def test_cache_read_of_a_scheduled_stage(check):
    """The copy comes first when the schedule is made, whatever was asked before."""
    A, B, C = stages()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=5)
    s[C].parallel(outer)
    BB = s.cache_read(B, "local", [C])
    s[BB].compute_at(s[C], inner)
    s[BB].unroll(BB.op.axis[1])
    s[B].compute_at(s[C], outer)
    AA = s.cache_read(A, "local", [B])
    same_as(s, check)
    s[AA].compute_at(s[C], outer)
    s[AA].vectorize(AA.op.axis[1])
    same_as(s, check)


def test_loops_of_one_iteration_vanish(check):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[1])
    outer, inner = s[B].split(B.op.axis[1], factor=4)
    s[B].reorder(inner, outer, B.op.axis[0])
    s[B].unroll(s[B].fuse(inner, outer))
    same_as(s, check)
    A = te.placeholder((4, 6), name="A")
    D = te.compute((1, 6), lambda i, j: A[2, j], name="D")
    E = te.compute((1, 6), lambda i, j: D[i, j] + 1.0, name="E")
    s = te.create_schedule(E.op)
    s[D].compute_at(s[E], E.op.axis[0])
    same_as(s, check)


def test_threads_of_a_gpu():
    _, _, C = stages()
    s = te.create_schedule(C.op)
    s[C.op.inputs[0]].compute_inline()
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], te.thread_axis((0, 6), "threadIdx.x"))
    assert 'thread("threadIdx.x", 6)' in str(s.func)


def test_memory_of_a_stage(check):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("local")
    s[B].storage_align(B.op.axis[0], 8, 1)
    same_as(s, check)
    assert 'scope="local"' in str(s.func)
    with pytest.raises(TensorIRError, match="needs one of its op.axis"):
        s[B].storage_align(C.op.axis[0], 8, 1)
    s[B].tensorize(B.op.axis[1], "none")
    with pytest.raises(ScheduleError, match="intrinsic 'none' is not known"):
        s.normalize()


def test_goes_on_with_primitives(check):
    A, B, C = stages()
    s = create_schedule([C.op], [A, C], name="chain")
    s[C].split(C.op.axis[0], nparts=2)
    sch = s.schedule
    sch.compute_inline("B")
    check(sch)
    assert sch.func.name == "chain" and len(s.trace) == 1


def test_refused_requests_change_nothing():
    A, B = row_sums()
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=4)
    before, leaves = str(s.func), list(s[B].leaves)
    with pytest.raises(ScheduleError, match=r"'k' is a reduction of s\[B\]"):
        s[B].parallel(B.op.reduce_axis[0])
    with pytest.raises(ScheduleError, match="factor 0 is not a positive integer"):
        s[B].split(B.op.reduce_axis[0], factor=0)
    assert str(s.func) == before and all(a is b for a, b in zip(s[B].leaves, leaves))


def test_what_can_never_be_met_is_refused_at_once():
    A, B, C = stages()
    other = te.create_schedule(B.op)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    foreign = te.placeholder((3,), name="F")
    for call, message in (
        (lambda: s[foreign], "'F' is no stage of this schedule; stages are B, C"),
        (lambda: te.create_schedule(A.op), "computes nothing"),
        (lambda: s[C].split(i), "split needs factor or nparts"),
        (lambda: s[C].split(i, 0), "factor 0 is not a positive integer"),
        (lambda: s[C].split(i, 2.0), "factor 2.0 is not a positive integer"),
        (lambda: s[C].split(i, nparts=True), "factor True is not a positive integer"),
        (lambda: s[C].split(B.op.axis[0], 4), r"s\[C\].split\(i, factor=4\): 'i' is no loop"),
        (lambda: s[C].split("i", 4), "'i' is no loop of stage 'C' now; its loops are i, j"),
        (lambda: s[C].reorder(i, i), "twice"),
        (lambda: s[C].fuse(j, i), "not next to each other"),
        (lambda: s[C].compute_inline(), "'C' is an output"),
        (lambda: s[C].compute_at(s[C], i), r"s\[C\] is in s\[C\]"),
        (lambda: s[B].compute_at(other[B], B.op.axis[0]), "no stage of this schedule"),
        (lambda: s[B].compute_at(C, i), "no stage of this schedule"),
        (lambda: s.cache_read(A, "local", [C]), r"s\[C\] does not read 'A'; it reads B"),
        (lambda: s.cache_read(foreign, "local", [C]), "'F' is no tensor of this schedule"),
        (lambda: s.cache_read(A, "local", []), "no reader"),
        (lambda: s.cache_write([], "local"), "no tensor"),
        (lambda: s.cache_write([B, C], "local"), "not outputs of one operation"),
        (lambda: s.rfactor(C, i), r"'i' is no reduction loop of s\[C\]"),
        (lambda: s[A].vectorize(i), "'A' is an input, which is not computed here"),
        (lambda: s.undo(1), "only 0 requests were made"),
    ):
        before = str(s.func)
        with pytest.raises(TensorIRError, match=message):
            call()
        assert str(s.func) == before and len(s.stages) == 2 and not s.requests


def test_a_producer_of_its_own_producer():
    _, B, C = stages()
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].compute_at(s[B], B.op.axis[0])
    with pytest.raises(ScheduleError, match="compute_at needs a consumer"):
        s.normalize()


def test_needs_the_package_schedule():
    code = """from tensorir import te
C = te.compute((4,), lambda i: 1.0)
try:
    te.create_schedule(C.op)
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "import schedule first" in done.stdout
