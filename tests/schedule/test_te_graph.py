"""te schedules: requests that change the graph, groups, and what a program finds that walks it."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import TensorIRError, int_value, te


def met(s, check):
    """The trace replays on the plain definition, and the result computes the definition."""
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    check(s.schedule)


def sizes(axes):
    return [int_value(axis.extent) for axis in axes]


def pair(n=6, m=8):
    A = te.placeholder((n, m), name="A")
    B0, B1 = te.compute((n, m), lambda i, j: (A[i, j] + 2.0, A[i, j] * 3.0), name="B")
    return A, B0, B1


def row_sums(n=6, m=22):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    return A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")


def moments(A, k):
    """A sum of integers and one of floats, by one reduction."""
    add = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda t0, t1: (te.const(0, t0), te.const(0, t1)),
        name="add",
    )
    return lambda i: add((A[i, k].astype("int32") * 2, A[i, k]), axis=k)


@pytest.mark.parametrize("number", [0, 1])
def test_cache_write_of_the_output_that_was_asked_for(check, number):
    _, *outputs = pair()
    s = te.create_schedule(outputs[0].op)
    cached = s.cache_write(outputs[number], "local")
    assert cached.name == f"B_{number}.local" and cached.shape == outputs[number].shape
    copier = s.schedule.state.block(s[outputs[number]].block)
    assert [b.name for b in s.schedule.state.func.params][1:] == ["B_0", "B_1"]
    assert f"B_{number}[" in str(copier) and f"B_{1 - number}" not in str(copier)
    assert s[cached] is s[outputs[1 - number]] is not s[outputs[number]]
    s[outputs[number]].vectorize(s[outputs[number]].op.axis[1])
    s[cached].parallel(s[cached].op.axis[0])
    met(s, check)


def test_cache_write_of_one_output_and_then_of_the_other(check):
    _, B0, B1 = pair()
    s = te.create_schedule(B0.op)
    first, second = s.cache_write(B1, "local"), s.cache_write(B0, "global")
    assert [t.name for t in (first, second)] == ["B_1.local", "B_0.global"]
    assert len(s.stages) == 3
    met(s, check)


def test_cache_write_of_all_outputs_is_one_stage_that_copies(check):
    A, B0, B1 = pair()
    s = te.create_schedule(B0.op)
    CC = s.cache_write([B0, B1], "local")
    assert [t.name for t in CC] == ["B_0.local", "B_1.local"] and s[B0] is s[B1]
    assert s[CC[0]] is s[CC[1]] is not s[B0]
    outer, inner = s[B0].split(B0.op.axis[0], factor=4)
    s[CC[0]].compute_at(s[B0], outer)
    s[CC[1]].vectorize(CC[1].op.axis[1])
    s[B0].vectorize(B0.op.axis[1])
    met(s, check)
    assert [len(s.schedule.get_loops(b)) for b in s.schedule.get_blocks()] == [3, 3, 3]
    with pytest.raises(ScheduleError, match="not outputs of one operation"):
        s.cache_write([B0, A], "local")


def test_outputs_in_another_order_than_the_reduction_has_them(check):
    """The first output is the second component of the reduction."""
    A = te.placeholder((4, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    best, at = te.compute((4,), lambda i: moments(A, k)(i)[::-1], name="top")
    for tensor in (best, at):
        s = te.create_schedule(best.op)
        cached = s.cache_write(tensor, "local")
        assert cached.dtype == tensor.dtype
        assert f"{tensor.name}[" in str(s.schedule.state.block(s[tensor].block))
        met(s, check)
    s = te.create_schedule(best.op)
    parts = s.rfactor(best, s[best].split(k, factor=5)[1])
    assert [(t.dtype, sizes_of(t)) for t in parts] == [("float32", [5, 4]), ("int32", [5, 4])]
    read = s.cache_read(parts[0], "local", [best])
    met(s, check)
    assert read.dtype == "float32" and "f32[5, 4]" in str(s.func)


def sizes_of(tensor):
    return [int_value(extent) for extent in tensor.shape]


def test_cache_write_after_split_and_reorder(check):
    """What was asked of the loops goes with the computation, and the axes of the cache are these
    loops; the tensor's own stage begins anew."""
    A = te.placeholder((10, 12), name="A")
    k = te.reduce_axis((0, 12), "k")
    C = te.compute((10, 10), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    stage = s[C]
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=4)
    ko, ki = s[C].split(k, factor=5)
    s[C].reorder(io, j, ko, ki, ii)
    s[C].unroll(ki)
    CC = s.cache_write(C, "local")
    assert s[C] is stage and [a.name for a in s[C].leaves] == ["i", "j"]
    assert [a.name for a in CC.op.axis] == ["i.outer.c", "j.c", "i.inner.c"]
    assert [a.name for a in s[CC].leaves] == [
        "i.outer.c", "j.c", "i.inner.c", "k.outer", "k.inner"
    ]  # fmt: skip
    s[CC].vectorize(CC.op.axis[1])
    s[CC].compute_at(s[C], i)
    met(s, check)
    assert "unrolled(5)" in str(s.func)
    s.undo(len(s.requests) - 4)
    assert [a.name for a in s[C].leaves] == ["i.outer", "j", "k.outer", "k.inner", "i.inner"]


def test_cache_of_a_cache_whose_axes_are_loops(check):
    """The axes of the first cache are two loops of one dimension; the second has one again."""
    _, B, _ = pair()
    C = te.compute((6, 8), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=4)
    first = s.cache_write(C, "local")
    second = s.cache_write(first, "local")
    assert [a.name for a in first.op.axis] == ["i.outer.c", "i.inner.c", "j.c"]
    assert [a.name for a in s[first].op.axis] == ["i.c", "j.c"]
    assert [a.name for a in s[second].leaves] == ["i.outer.c.c", "i.inner.c.c", "j.c.c"]
    s[first].vectorize(s[first].op.axis[1])
    s[first].storage_align(s[first].op.axis[0], 8, 1)
    s[second].compute_at(s[first], s[first].op.axis[0])
    met(s, check)


def test_changes_of_what_rfactor_made(check):
    _, B = row_sums()
    s = te.create_schedule(B.op)
    BF = s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=8)[1])
    s[BF].fuse(*BF.op.axis)
    read = s.cache_read(BF, "local", [B])
    cached = s.cache_write(BF, "local")
    s[read].compute_at(s[B], B.op.axis[0])
    met(s, check)
    assert [a.name for a in cached.op.axis] == ["k.inner.rf.i.rf.fused.c"]


def test_some_of_several_outputs_are_one_request():
    _, B0, B1 = pair()
    s = te.create_schedule(B0.op)
    s.cache_write(B0, "local")
    made = s.cache_write([B0, B1], "global")
    assert [t.name for t in made] == ["B_0.global", "B_1.global"] and len(s.requests) == 2
    s.undo()
    assert len(s.stages) == 2 and s[B1] is not s[B0]


def test_cache_write_of_loops_that_others_need():
    A = te.placeholder((10, 12), name="A")
    B = te.compute((10, 12), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((10, 12), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], factor=4)
    s[B].compute_at(s[C], outer)
    CC = s.cache_write(C, "local")
    with pytest.raises(ScheduleError, match="loop 'j.outer', in which 'B' is computed, is gone"):
        s.normalize()
    s[B].compute_at(s[CC], CC.op.axis[1])
    s.normalize()
    s.undo(2)
    s[B].compute_root()
    s[C].vectorize(inner)
    with pytest.raises(ScheduleError, match=r"vectorize\(j.inner\) is for a loop that cache_write"):
        s.cache_write(C, "local")
    s.withdraw(s.requests[-1])
    s.cache_write(C, "local")
    assert s.func is not None


def test_cache_read_for_several_readers(check):
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] + 1.0, name="C")
    D = te.compute((6, 8), lambda i, j: B[i, j] * C[i, j], name="D")
    s = te.create_schedule(D.op)
    BB = s.cache_read(B, "local", [C, D])
    assert s[C].op.input_tensors == [BB] and s[D].op.input_tensors == [BB, C]
    assert BB.op.input_tensors == [B] and (BB.dtype, BB.shape) == (B.dtype, B.shape)
    s[BB].compute_at(s[D], D.op.axis[0])
    with pytest.raises(ScheduleError, match=r"reader 'C' of 'B.local' is outside loop 'i' of s"):
        s.normalize()
    s[C].compute_at(s[D], D.op.axis[0])
    met(s, check)
    assert s.schedule.get_blocks() == ["B", "B_local", "C", "D"]


def test_rfactor_after_a_split_of_a_data_axis(check):
    """The data axes stay as they were asked for, in the stage that reduces the parts."""
    _, B = row_sums()
    s = te.create_schedule(B.op)
    xo, xi = s[B].split(B.op.axis[0], factor=4)
    s[B].parallel(xo)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
    s[B].reorder(xo, ko, xi, ki)
    BF = s.rfactor(B, ki)
    assert [a.name for a in s[B].leaves] == ["i.outer", "i.inner", "k.inner.v"]
    assert sizes(BF.op.axis) == [8, 6] and sizes(BF.op.reduce_axis) == [3]
    s[BF].compute_at(s[B], xi)
    s[BF].vectorize(BF.op.axis[0])
    s[BF].reorder(BF.op.axis[1], BF.op.reduce_axis[0], BF.op.axis[0])
    met(s, check)
    assert str(s.func).count("parallel(2)") == 1


def test_rfactor_of_a_whole_reduction(check):
    _, B = row_sums()
    s = te.create_schedule(B.op)
    BF = s.rfactor(B, B.op.reduce_axis[0], factor_axis=1)
    assert sizes(BF.op.axis) == [6, 22] and not BF.op.reduce_axis and sizes_of(BF) == [6, 22]
    s[BF].compute_at(s[B], B.op.axis[0])
    s[BF].vectorize(BF.op.axis[1])
    met(s, check)


def test_rfactor_of_a_tuple(check):
    A = te.placeholder((4, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    at, best = te.compute((4,), moments(A, k), name="top")
    s = te.create_schedule(at.op)
    ko, ki = s[at].split(k, factor=5)
    parts = s.rfactor(best, ki)
    assert [t.name for t in parts] == ["top_0.rf", "top_1.rf"]
    s[parts[0]].compute_at(s[at], at.op.axis[0])
    s[parts[1]].unroll(parts[0].op.reduce_axis[0])
    s[at].parallel(at.op.axis[0])
    met(s, check)


def test_rfactor_beside_loops_of_one_iteration(check):
    """A factor of 2 for two terms leaves one loop with one iteration."""
    _, B = row_sums(3, 2)
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=2)
    BF = s.rfactor(B, ki)
    s[BF].unroll(BF.op.reduce_axis[0])
    s[BF].vectorize(BF.op.axis[0])
    s[BF].reorder(BF.op.axis[1], BF.op.reduce_axis[0], BF.op.axis[0])
    met(s, check)
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=2)
    s.rfactor(B, ko)
    with pytest.raises(ScheduleError, match="'k.outer' has one iteration only, so there are no"):
        s.normalize()


def test_rfactor_of_loops_that_were_asked_for():
    _, B = row_sums()
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
    s[B].unroll(ki)
    with pytest.raises(ScheduleError, match=r"unroll\(k.inner\) is for a loop that rfactor takes"):
        s.rfactor(B, ki)
    with pytest.raises(ScheduleError, match="factor_axis 2 is none of 2 dimensions"):
        s.rfactor(B, ko, 2)


def test_handles_of_loops_that_rfactor_used_up():
    _, B = row_sums()
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
    s.rfactor(B, ki)
    with pytest.raises(ScheduleError, match="'k.outer' is no loop of stage 'B' now; its loops are"):
        s[B].unroll(ko)


def test_stages_of_two_outputs_and_of_scans_are_moved(check):
    A, B0, B1 = pair()
    C = te.compute((6, 8), lambda i, j: B0[i, j] * B1[i, 7 - j], name="C")
    s = te.create_schedule(C.op)
    s[B1].compute_at(s[C], C.op.axis[0])
    s[B0].vectorize(B0.op.axis[1])
    met(s, check)
    X, state = te.placeholder((5, 6), name="X"), te.state((5, 6), name="s")
    first = te.compute((1, 6), lambda _, i: X[0, i], name="first")
    half = te.compute((5, 6), lambda t, i: state[t - 1, i] * 0.5, name="half")
    step = te.compute((5, 6), lambda t, i: half[t, i] + X[t, i], name="step")
    scan = te.scan(first, step, state, name="p")
    s = te.create_schedule(scan.op)
    outer, inner = s[step].split(step.op.axis[1], factor=4)
    s[half].compute_at(s[step], outer)
    s[half].unroll(half.op.axis[1])
    s[step].parallel(outer)
    met(s, check)
    with pytest.raises(ScheduleError, match="'p' is a te.scan, a loop over the stages of"):
        s[scan].parallel(inner)


def test_caches_of_what_an_extern_function_makes(check):
    """Its stage has axes for the rows only, and the copies of its outputs have all."""
    A = te.placeholder((4, 6), name="A")
    values, places = te.extern([(4, 2), (4, 2)], A, "topk", name="top")
    total = te.compute((4, 2), lambda i, j: values[i, j] + places[i, j].astype("float32"), name="Q")
    for wanted in (values, [values, places]):
        s = te.create_schedule(total.op)
        s.cache_write(wanted, "global")
        copied = s[values]
        assert sizes(copied.leaves) == [4, 2]
        copied.unroll(copied.leaves[1])
        met(s, check)
    ordered = te.extern((4, 6), A, "sort", name="S")
    s = te.create_schedule(ordered.op)
    cached = s.cache_write(ordered, "global")
    s[cached].compute_at(s[ordered], s[ordered].op.axis[0])
    met(s, check)


def test_cache_read_around_a_scan(check):
    X, state = te.placeholder((5, 6), name="X"), te.state((5, 6), name="s")
    first = te.compute((1, 6), lambda _, i: X[0, i], name="first")
    step = te.compute((5, 6), lambda t, i: state[t - 1, i] * 0.5 + X[t, i], name="step")
    scan = te.scan(first, step, state, name="p")
    D = te.compute((5, 6), lambda t, i: scan[t, i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    P, XX = s.cache_read(scan, "local", [D]), s.cache_read(X, "local", [step, first])
    s[P].compute_at(s[D], D.op.axis[0])
    s[XX].vectorize(XX.op.axis[1])
    met(s, check)
    with pytest.raises(ScheduleError, match="'s' is the state of a te.scan, which its steps write"):
        s.cache_read(state, "local", [step])


def test_group(check):
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] + 1.0, name="C")
    D = te.compute((6, 8), lambda i, j: C[i, j] * C[i, j], name="D")
    E = te.compute((6, 8), lambda i, j: D[i, j] - 1.0, name="E")
    s = te.create_schedule(E.op)
    group = s.create_group(outputs=D, inputs=A, include_inputs=False)
    assert [stage.name for stage in group.stages] == ["D", "C", "B"]
    group.compute_at(s[E], E.op.axis[0])
    s[C].compute_at(s[D], D.op.axis[1])
    met(s, check)
    loops = [s.schedule.get_loops(b)[0] for b in s.schedule.get_blocks()]
    assert set(loops) == {"i_E"} and len(s.schedule.get_loops("C")) == 2
    CC = s.cache_write(C, "local")
    assert s[CC].group is group
    met(s, check)
    group.compute_root()
    s[C].compute_root()
    assert [len(s.schedule.get_loops(b)) for b in s.schedule.get_blocks()] == [2] * 5
    s.undo(len(s.requests))
    assert all(stage.group is None for stage in s.stages)


def test_groups_in_groups(check):
    A = te.placeholder((6, 8), name="A")
    chain = [A]
    for name in "BCDE":
        chain.append(te.compute((6, 8), lambda i, j, last=chain[-1]: last[i, j] + 1.0, name=name))
    _, B, C, D, E = chain
    s = te.create_schedule(E.op)
    inner = s.create_group(outputs=C, inputs=B, include_inputs=True)
    outer = s.create_group(outputs=D, inputs=A)
    assert inner.group is outer and s[D].group is outer and s[B].group is inner
    outer.compute_at(s[E], E.op.axis[0])
    assert {s.schedule.get_loops(b)[0] for b in s.schedule.get_blocks()} == {"i_E"}
    inner.compute_at(s[D], D.op.axis[1])
    met(s, check)
    for call, message in (
        (lambda: s.create_group(outputs=E, inputs=B), "is only in part between them"),
        (lambda: s.create_group(outputs=B, inputs=D), r"s\[D\] is not needed for any of the out"),
        (lambda: s.create_group(outputs=A, inputs=A), "no stage is between"),
        (lambda: inner.compute_inline(), "stages are inlined one by one"),
        (lambda: inner.parallel(B.op.axis[0]), "is no loop of stage"),
        (lambda: outer.compute_at(s[B], B.op.axis[0]), "is in"),
    ):
        with pytest.raises(ScheduleError, match=message):
            call()


def test_operations_as_programs_find_them():
    A = te.placeholder((4, 6), name="A")
    B = te.compute(
        (4, 6), lambda i, j: A[i, j] + 1.0, name="B", tag="elemwise", attrs={"workload": ("add", 1)}
    )
    k = te.reduce_axis(6, "k")
    C = te.compute((4,), lambda i: te.sum(B[i, k], axis=k), name="C")
    assert B.op.tag == "elemwise" and B.op.attrs["workload"] == ("add", 1) and C.op.tag == ""
    assert B.op.input_tensors == [A] and C.op.input_tensors == [B] and A.op.input_tensors == []
    assert B.op.output(0) is B and A.op.output(0) is A and C.op.num_outputs == 1
    assert (A.op.tag, A.op.attrs) == ("", {})
    s = te.create_schedule(C.op)
    assert s[A].op is A.op and s[B].op is B.op and s[A].leaves == [] and s[A] not in s.stages
    CC = s.cache_write(B, "local")
    assert CC.op.tag == "elemwise" and CC.op.input_tensors == [A] and CC.op.output(0) is CC
    assert s[B].op.input_tensors == [CC] and s[B].op.output(0) is B
    assert (CC.dtype, CC.shape, CC.ndim, CC.index) == (B.dtype, B.shape, 2, 0)
    for call in (lambda: B.op.output(1), lambda: CC.op.output(1), lambda: A.op.output(-1)):
        with pytest.raises(TensorIRError, match="has no output number"):
            call()
    for arguments, message in (({"tag": 3}, "give a string"), ({"attrs": [1]}, "give a dict")):
        with pytest.raises(TensorIRError, match=message):
            te.compute((4,), lambda i: A[i, 0], name="D", **arguments)


def test_lower_with_arguments_in_another_order():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    C = te.compute((4,), lambda i: A[i] - B[i], name="C")
    D = te.compute((4,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    s[D].unroll(D.op.axis[0])
    assert te.lower(s) is s.func and te.lower(s.schedule) is s.func and te.lower(s.func) is s.func
    assert "def main(A: f32[4], B: f32[4], D: f32[4])" in str(te.lower(s, simple_mode=True))
    func = te.lower(s, [B, A, D], name="turned")
    assert "def turned(B: f32[4], A: f32[4], D: f32[4])" in str(func)
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(build(func)(b, a), (a - b) * 2)
    with pytest.raises(ScheduleError, match=r"s\[C\].compute_at\(s\[D\], i\): 'C' is an output"):
        te.lower(s, [A, B, C, D])
    s[C].compute_root()
    assert "def main(A: f32[4], B: f32[4], C: f32[4], D: f32[4])" in str(te.lower(s, [A, B, C, D]))
    with pytest.raises(TensorIRError, match="this schedule is of other stages"):
        te.lower(s, [A, B, C])
    with pytest.raises(TensorIRError, match="give it what te.create_schedule returned"):
        te.lower(D)
