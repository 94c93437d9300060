"""Schedules of te.scan: what passes from step to step keeps its order, all else is free."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import Schedule
from tensorir import ops, parse, te

SCAN = """
@prim_func
def scan(x: f32[6, 4], S: f32[6, 4], z: f32[4]):
    for one, i in grid(1, 4):
        with block("first"):
            vt = spatial(1, one)
            vi = spatial(4, i)
            S[vt, vi] = x[vt, vi]
    for t, i_step in grid(5, 4):
        with block("step"):
            vt = opaque(5, t)
            vi = spatial(4, i_step)
            S[vt + 1, vi] = S[vt, vi] + x[vt + 1, vi]
    for j in range(4):
        with block("last"):
            vj = spatial(4, j)
            z[vj] = S[5, vj]
"""
READS = """    for k in range(4):
        with block("early"):
            vk = spatial(4, k)
            z[vk] = S[0, vk]
"""


def running_sum(m=7, n=5, shift=0):
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="s_state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="s_init")
    step = te.compute(
        (m, n), lambda t, i: state[t - 1, (i + shift) % n if shift else i] + x[t, i], name="s_step"
    )
    return te.create_prim_func([x, te.scan(init, step, state, name="s")], name="running_sum")


def recurrent_net(m=6, n=4):
    """A hidden state through a matrix product, and a second state two steps back."""
    x = te.placeholder((m, n), name="X")
    w = te.placeholder((n, n), name="W")
    h, c = te.state((m, n), name="h"), te.state((m, n), name="c")
    first = te.compute((2, n), lambda t, i: x[t, i], name="h0")
    zero = te.compute((2, n), lambda t, i: 0.0, name="c0")
    k = te.reduce_axis(n, name="k")
    gate = te.compute((m, n), lambda t, i: te.sum(h[t - 1, k] * w[i, k], axis=k), name="gate")
    new_c = te.compute((m, n), lambda t, i: c[t - 2, i] + gate[t, i], name="new_c")
    new_h = te.compute((m, n), lambda t, i: te.max(c[t - 1, n - 1 - i] + x[t, i], gate[t, i]) * 0.5,
                       name="new_h")  # fmt: skip
    hs, _ = te.scan((first, zero), (new_h, new_c), (h, c), name="net")
    return te.create_prim_func([x, w, hs], name="net")


def powers(m=6, n=3):
    """The step itself is a reduction."""
    w = te.placeholder((n, n), name="W")
    x = te.placeholder((n,), name="X")
    s = te.state((m, n), name="s")
    k = te.reduce_axis(n, name="k")
    first = te.compute((1, n), lambda _, i: x[i], name="first")
    step = te.compute((m, n), lambda t, i: te.sum(s[t - 1, k] * w[i, k], axis=k), name="step")
    return te.create_prim_func([w, x, te.scan(first, step, s, name="p")], name="powers")


def test_golden(check, golden):
    sch = Schedule(running_sum())
    sch.vectorize("i")
    sch.parallel(sch.split("i_s_step", [None, 2])[0])
    golden(str(sch.func), "scan_columns_in_parallel")
    check(sch)


def test_columns_outside_of_the_time(check):
    sch = Schedule(running_sum())
    sch.reorder("i_s_step", "t")
    sch.parallel("i_s_step")
    sch.unroll("t")
    check(sch)


def test_time_is_split_and_fused(check):
    sch = Schedule(running_sum())
    _, inner = sch.split("t", [None, 4])
    sch.fuse(inner, "i_s_step")
    check(sch)


def test_symbolic(check):
    m, n = te.var("m"), te.var("n")
    sch = Schedule(running_sum(m, n))
    sch.split("t", [None, 4])
    _, inner = sch.split("i_s_step", [None, 4])
    sch.vectorize(inner)
    assert "where(i0 < m)" in str(sch.func)


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_refuses_time(kind):
    sch = Schedule(running_sum())
    refused(getattr(sch, kind), "t", match="block 's_step' uses what block 's_step' writes")
    outer, inner = sch.split("t", [None, 2])
    refused(getattr(sch, kind), outer, match="block 's_step' uses what block 's_step' writes")
    refused(getattr(sch, kind), inner, match="block 's_step' uses what block 's_step' writes")


def test_refuses_time_in_a_fused_loop():
    sch = Schedule(running_sum())
    refused(sch.parallel, sch.fuse("t", "i_s_step"), match="block 's_step' uses")


def test_refuses_to_exchange_a_skewed_dependence(check):
    """Column i needs column i + 1 of the step before: the columns are not independent in time."""
    sch = Schedule(running_sum(shift=1))
    refused(sch.reorder, "i_s_step", "t", match="block 's_step' uses what block 's_step' writes")
    sch.parallel("i_s_step")  # within a step they are
    check(sch)


def test_refuses_to_take_the_time_apart():
    sch = Schedule(running_sum())
    outer, inner = sch.split("t", [None, 2])
    refused(sch.reorder, inner, outer, match="block 's_step' uses what block 's_step' writes")


def test_several_states_and_stages(check, golden):
    sch = Schedule(recurrent_net())
    golden(str(sch.func), "scan_of_two_states")
    sch.parallel("i_new_h")
    sch.vectorize("i_new_c")
    sch.vectorize("i_gate")
    check(sch)
    refused(sch.parallel, "t_new_c", match="block .* uses what block")


def test_stage_of_a_step_is_fused(check):
    sch = Schedule(recurrent_net())
    sch.reorder("k", "i_gate")
    sch.decompose_reduction("gate", "k")
    check(sch)


def test_reduction_as_step(check):
    sch = Schedule(powers())
    sch.decompose_reduction("step", "t")
    sch.reorder("k", "i_step")
    sch.vectorize("i_step")
    check(sch)
    refused(sch.parallel, "t", match="block 'step' uses what block 'step")


def test_columns_of_several_stages_outside_of_the_time(check):
    """Two states, the second of which takes what the first one is in this step."""
    x = te.placeholder((6, 4), name="X")
    a, b = te.state((6, 4), name="a"), te.state((6, 4), name="b")
    first = [te.compute((1, 4), lambda t, i: x[t, i], name=f"{n}0") for n in "ab"]
    gate = te.compute((6, 4), lambda t, i: a[t - 1, i] + x[t, i], name="gate")
    new = te.compute((6, 4), lambda t, i: gate[t, i] * 2.0, name="new")
    other = te.compute((6, 4), lambda t, i: b[t - 1, i] * 0.5 + gate[t, i], name="other")
    _, found = te.scan(first, (new, other), (a, b), name="two")
    sch = Schedule(te.create_prim_func([x, found]))
    column = sch.merge("i_gate", "i_new", "i_other")
    sch.reorder(column, sch.get_loops("new")[0])
    sch.parallel(column)
    check(sch)


KEPT = """
@prim_func
def kept(x: f32[3], y: f32[3, 4]):
    last = alloc(f32[1])
    for t, i in grid(3, 4):
        with block("new"):
            vt = spatial(3, t)
            vi = opaque(4, i)
            where(i == 0)
            last[0] = x[vt]
        with block("use"):
            vt = spatial(3, t)
            vi = spatial(4, i)
            y[vt, vi] = last[0]
"""


def test_refuses_to_part_what_an_iteration_keeps_for_itself():
    """Each t has the memory to itself while its columns run one after the other."""
    refused(Schedule(parse(KEPT)).reorder, "i", "t", match="uses what block 'new' writes")


def test_refuses_the_reduction_outside_of_the_time():
    sch = Schedule(powers())
    refused(sch.reorder, "k", "t", match="block 'step' uses what block 'step' writes")
    refused(sch.reorder, "i_step", "t", match="block 'step' uses what block 'step' writes")
    outer, _ = sch.split("k", [None, 2])
    refused(sch.rfactor, "step", outer, match="uses 'p' in other ways than to update it")


def test_refuses_copies_of_the_state():
    sch = Schedule(running_sum())
    refused(sch.cache_write, "s_step", "s", match="'s' is also written by block 's_init'")
    refused(sch.cache_read, "s_step", "s", match="'s' is not among them: block 's_step' reads X")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("S[vt, vi] - x", "is no step of a scan"),
        ("S[vt, 3 - vi] + x", "is no step of a scan"),
        ("S[0, vi] + x", "is no step of a scan"),
    ],
)
def test_what_is_no_scan_for_threads(change, reason):
    text = SCAN.replace("S[vt, vi] + x", change)
    refused(Schedule(parse(text)).use_algorithm, "step", "scan_256x5", match=reason)


def test_the_first_row_of_a_scan():
    Schedule(parse(SCAN)).use_algorithm("step", "scan_256x5")
    refused(Schedule(parse(SCAN)).use_algorithm, "first", "scan_256x5", match="is no step of")
    between = SCAN.replace("    for t, i_step", READS + "    for t, i_step")
    refused(
        Schedule(parse(between)).use_algorithm, "step", "scan_256x5",
        match="block 'first' does not stand directly before block 'step'",
    )  # fmt: skip


def test_a_scan_of_unknown_length():
    x = te.placeholder((te.var("n"),), name="x")
    sch = Schedule(te.create_prim_func([x, ops.cumsum(x)]))
    refused(sch.use_algorithm, "step", "scan_256x5", match="steps that is not known")
