"""te schedules: requests about loops and memory that TVM has, met or refused with another way."""

from __future__ import annotations

import pytest

from schedule import Schedule, ScheduleError
from tensorir import te


def met(s, check):
    """The trace replays on the plain definition, and the result computes the definition."""
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    check(s.schedule)


def stages(n=12, m=6):
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] * 2.0, name="C")
    return A, B, C


def product(m=8, n=12, r=10):
    A, B = te.placeholder((m, r), name="A"), te.placeholder((r, n), name="B")
    k = te.reduce_axis((0, r), "k")
    return A, te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def loops(s):
    """The loops in program order, as `parallel(3)`."""
    state = s.schedule.state
    nodes = [state.loop(name) for name in state.loop_names()]
    return [f"{node.kind}({node.extent!r})" for node in nodes]


@pytest.mark.parametrize("change", ["split", "fuse", "fuse outwards", "split and reorder"])
def test_the_loop_of_a_place_is_changed_afterwards(check, change):
    """The stage is computed in the innermost loop that comes of the one that was named."""
    _, B, C = stages()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[B].compute_at(s[C], j if change == "fuse outwards" else i)
    if change == "split":
        s[C].split(i, factor=5)
        around = 2
    elif change == "split and reorder":
        outer, inner = s[C].split(i, factor=4)
        s[C].reorder(outer, j, inner)
        around = 3
    else:
        s[C].fuse(i, j)
        around = 1
    met(s, check)
    shared = [x for x in s.schedule.get_loops("B") if x in s.schedule.get_loops("C")]
    assert len(shared) == around
    s[B].vectorize(B.op.axis[1])
    s[C].parallel(s[C].leaves[0])
    met(s, check)


def test_fuse_of_no_axis(check):
    """A tensor of rank zero gets a loop, in which others can be computed."""
    A = te.placeholder((7,), name="A")
    k = te.reduce_axis(7, "k")
    B = te.compute((7,), lambda i: A[i] * A[i], name="B")
    C = te.compute((), lambda: te.sum(B[k], axis=k), name="C")
    D = te.compute((), lambda: C() + 1.0, name="D")
    s = te.create_schedule(D.op)
    one = s[D].fuse()
    s[C].compute_at(s[D], one)
    s[B].compute_at(s[C], s[C].fuse(k))
    met(s, check)
    assert {s.schedule.get_loops(b)[0] for b in s.schedule.get_blocks()} == {"unit"}
    s = te.create_schedule(D.op)
    outer = s[C].fuse(*C.op.axis)
    assert [a.name for a in s[C].leaves] == ["singleton", "k"]
    s[C].parallel(outer)
    met(s, check)


def test_fuse_of_a_list_and_of_one_axis(check):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    fused = s[C].fuse(list(C.op.axis))
    s[C].vectorize(s[C].split(s[C].fuse(fused), te.const(8))[1])
    s[B].reorder(list(reversed(B.op.axis)))
    met(s, check)


def test_fuse_of_a_data_axis_with_one_of_the_reduction(check):
    _, C = product()
    s = te.create_schedule(C.op)
    (k,) = C.op.reduce_axis
    fused = s[C].fuse(C.op.axis[1], k)
    outer, inner = s[C].split(fused, factor=8)
    s[C].unroll(inner)
    met(s, check)
    assert fused.is_reduce and [a.name for a in s[C].leaves] == [
        "i", "j.k.fused.outer", "j.k.fused.inner"
    ]  # fmt: skip
    first = s[C].decompose_reduction(outer)
    assert [a.name for a in first.op.axis] == ["j.k.fused.outer.init", "j.k.fused.inner.init"]
    s[first].unroll(first.op.axis[1])
    met(s, check)
    for call, message in (
        (lambda: s[C].parallel(outer), "is a reduction of s.C."),
        (lambda: s.cache_write(C, "local"), r"fuse\(j, k\) has made one loop of data and reduce"),
        (lambda: s.rfactor(C, inner), r"fuse\(j, k\) has made one loop of data and reduce"),
    ):
        with pytest.raises(ScheduleError, match=message):
            call()
    n = te.var("n")
    A, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, "r")
    B = te.compute((4,), lambda i: te.sum(A[i, r], axis=r), name="B")
    s = te.create_schedule(B.op)
    s[B].fuse(B.op.axis[0], r)
    with pytest.raises(ScheduleError, match="loop 'r' of s.B. of the reduction .* no iterations"):
        s.normalize()
    s.undo()
    s[B].decompose_reduction(B.op.axis[0])
    s[B].fuse(B.op.axis[0], r)
    s.normalize()


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        ("parallel", "split", ["parallel(3)", "serial(4)"]),
        ("vectorize", "split", ["serial(3)", "vectorized(4)"]),
        ("unroll", "split", ["unrolled(3)", "unrolled(4)"]),
        ("parallel", "fuse", ["parallel(72)"]),
        ("vectorize", "fuse", ["vectorized(72)"]),
        ("unroll", "fuse", ["unrolled(72)"]),
    ],
)
def test_kinds_go_on_to_what_a_loop_becomes(check, kind, change, expected):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    i, j = C.op.axis
    getattr(s[C], kind)(i)
    if change == "split":
        outer, inner = s[C].split(i, factor=4)
        s[C].reorder(outer, j, inner)
    else:
        s[C].fuse(i, j)
    met(s, check)
    assert [text for text in loops(s) if "(6)" not in text] == expected


def test_kinds_that_cannot_go_on():
    _, B, C = stages()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[C].bind(i, te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError, match="for the loop as it is; split first, then bind"):
        s[C].split(i, 4)
    s.undo()
    s[C].parallel(i)
    s[C].vectorize(j)
    with pytest.raises(ScheduleError, match=r"cannot do both, s\[C\].parallel\(i\) and s\[C\].vec"):
        s[C].fuse(i, j)
    s.undo(2)
    s[C].pragma(i, "unroll_limit", 4)
    with pytest.raises(ScheduleError, match="split first, then pragma"):
        s[C].split(i, 4)


def test_the_last_kind_of_a_loop_counts(check):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[C].parallel(j)
    s[C].vectorize(j)
    s[C].unroll(i)
    s[C].parallel(i)
    outer, inner = s[C].split(i, 4)
    s[C].unroll(outer)
    met(s, check)
    assert loops(s)[-3:] == ["unrolled(3)", "serial(4)", "vectorized(6)"]
    s.undo()
    assert loops(s)[-3:] == ["parallel(3)", "serial(4)", "vectorized(6)"]


def test_split_without_a_predicate(check):
    _, B, C = stages()
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=4, disable_predication=True)
    met(s, check)
    s[C].split(C.op.axis[1], nparts=4, disable_predication=True)
    with pytest.raises(ScheduleError) as caught:
        s.normalize()
    assert caught.value.call == "s[C].split(j, nparts=4, disable_predication=True)"
    assert "not proved that no iteration is beyond the extent 6" in caught.value.reason
    s.undo()
    n = te.var("n")
    A = te.placeholder((n, 8), name="A")
    D = te.compute((n * 8,), lambda i: A[i // 8, i % 8] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[D].split(D.op.axis[0], factor=8, disable_predication=True)
    assert "where" not in str(s.func)


def test_decompose_reduction(check):
    _, C = product()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    jo, ji = s[C].split(j, factor=4)
    ko, ki = s[C].split(k, factor=5)
    s[C].reorder(i, jo, ko, ki, ji)
    first = s[C].decompose_reduction(ko)
    assert [a.name for a in first.op.axis] == ["j.inner.init"]
    s[first].vectorize(first.op.axis[0])
    s[C].vectorize(ji)
    s[C].unroll(s[C].split(ki, factor=2)[1])
    s[C].parallel(i)
    met(s, check)
    blocks = s.schedule.get_blocks()
    assert blocks == ["C_init", "C"] and len(s.schedule.get_loops("C_init")) == 3
    assert loops(s).count("vectorized(4)") == 2 and "init" not in str(s.schedule.state.block("C"))
    for call, message in (
        (lambda: s[C].decompose_reduction(s[C].leaves[3]), "'k.outer', outside of .* reduction"),
        (lambda: s.cache_write(C, "local"), "has taken the first values out"),
        (lambda: s.rfactor(C, s[C].leaves[2]), "has taken the first values out"),
        (lambda: s[first].decompose_reduction(first.op.axis[0]), "is no reduction"),
    ):
        with pytest.raises(ScheduleError, match=message):
            call()
    s[C].decompose_reduction(i)
    with pytest.raises(ScheduleError, match="its init was split off before"):
        s.normalize()


def test_decompose_reduction_in_a_place(check):
    """Of a cache whose data axes have one iteration there and are gone."""
    _, C = product()
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    s[CC].compute_at(s[C], C.op.axis[0])
    (k,) = CC.op.reduce_axis
    s[CC].reorder(k, *CC.op.axis)
    first = s[CC].decompose_reduction(k)
    outer, inner = s[first].split(first.op.axis[1], factor=4)
    s[first].vectorize(inner)
    s[first].unroll(first.op.axis[0])
    met(s, check)
    assert loops(s)[:3] == ["serial(8)", "serial(3)", "vectorized(4)"]


def test_pragmas(check):
    _, C = product(4, 6, 3)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[C].pragma(i, "auto_unroll_max_step", 20)
    met(s, check)
    assert loops(s) == ["serial(4)", "unrolled(6)", "unrolled(3)"]
    s[C].pragma(i, "unroll_explicit", False)
    met(s, check)
    assert str(s.func).count("unroll_limit") == 2
    s[C].pragma(i, "auto_unroll_max_step", 0)
    assert "unrolled" not in str(s.func)
    s[C].parallel(i)
    s[C].pragma(i, "schedule", "dynamic,2")
    met(s, check)
    assert "dynamic,2" in str(s.func)
    with pytest.raises(ScheduleError, match="nothing honours a pragma 'import_llvm'"):
        s[C].pragma(i, "import_llvm", "")
    s[C].pragma(i, "auto_unroll_max_step", "many")
    with pytest.raises(ScheduleError, match="'many' is not a number of steps"):
        s.normalize()


def test_prefetch(check):
    A = te.placeholder((9, 40), name="A")
    k = te.reduce_axis((0, 40), "k")
    B = te.compute((9,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].prefetch(A, B.op.axis[0], 2)
    met(s, check)
    assert s.trace.instructions[-1].name == "prefetch"
    with pytest.raises(ScheduleError, match=r"s\[B\] does not read 'B'; it reads A"):
        s[B].prefetch(B, B.op.axis[0], 1)


def test_double_buffer(check):
    A, B, C = stages()
    s = te.create_schedule(C.op)
    s[B].double_buffer()
    s[B].compute_at(s[C], C.op.axis[0])
    met(s, check)
    assert "double_buffer" in str(s.func)
    s[B].compute_root()
    with pytest.raises(ScheduleError, match=r"s\[B\].double_buffer\(\): .*other blocks inside"):
        s.normalize()


def test_rolling_buffer(check):
    A = te.placeholder((10, 6), name="A")
    B = te.compute((10, 6), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((8, 6), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    s = te.create_schedule(C.op)
    s[B].rolling_buffer()
    s[B].vectorize(B.op.axis[1])
    s[B].compute_at(s[C], C.op.axis[0])
    met(s, check)
    assert "B_first" in s.schedule.get_blocks()


def chain_of_windows():
    A = te.placeholder((12, 6), name="A")
    B = te.compute((12, 6), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((10, 6), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    D = te.compute((8, 6), lambda y, x: C[y, x] + C[y + 1, x] + C[y + 2, x], name="D")
    return B, C, D


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rolling_buffers_of_a_chain(check, order):
    stages = chain_of_windows()
    D = stages[-1]
    s = te.create_schedule(D.op)
    for n in order:
        s[stages[n]].rolling_buffer()
        s[stages[n]].compute_at(s[D], D.op.axis[0])
        s[stages[n]].vectorize(s[stages[n]].split(stages[n].op.axis[1], factor=3)[1])
    met(s, check)
    assert s.schedule.get_blocks() == ["B_first", "C_first", "B", "C", "D"]


def test_nothing_is_computed_in_a_rolling_buffer():
    B, C, D = chain_of_windows()
    s = te.create_schedule(D.op)
    s[C].rolling_buffer()
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(ScheduleError, match=r"s\[C\] is a rolling buffer: .* compute s\[B\] where"):
        s.normalize()
    s[B].compute_at(s[D], D.op.axis[0])
    with pytest.raises(ScheduleError, match=r"s\[C\].rolling_buffer\(\)"):
        s.normalize()
    s[B].rolling_buffer()
    s.normalize()


@pytest.mark.parametrize(
    ("call", "reason", "remedy"),
    [
        (lambda st: st.set_store_predicate(None), "no thread stores what", "te.if_then_else"),
        (lambda st: st.env_threads([]), "threads begin where a loop is bound", "bind a loop"),
    ],
)
def test_what_there_is_not_says_what_to_do(call, reason, remedy):
    _, _, C = stages()
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError) as caught:
        call(s[C])
    assert reason in caught.value.reason and remedy in caught.value.hint
    assert not s.requests


def test_the_other_way_to_another_layout(check):
    """For outputs' copies, after the stages are scheduled."""
    A, B, C = stages()
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    s[CC].parallel(CC.op.axis[0])
    sch = s.schedule
    sch.transform_layout(s[CC].block, 0, lambda i, j: (j, i // 4, i % 4))
    check(sch)
    assert "C_global = alloc(f32[6, 3, 4])" in str(sch.func)
