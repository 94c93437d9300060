"""Requests may pass through states that are not legal: what counts is what all come to.

The schedules are in the style of TVM's operator library, which asks for things in the order in
which one thinks of them.
"""

from __future__ import annotations

import itertools
import operator
import pickle

import pytest

from schedule import Schedule, ScheduleError
from tensorir import TensorIRError, te


def met(s, check, compiled=True):
    """The trace replays on the plain definition, and the result computes the definition."""
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    check(s.schedule, compiled=compiled)


def softmax(m=5, n=9):
    A = te.placeholder((m, n), name="A")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, n), "k2")
    top = te.compute((m,), lambda i: te.max(A[i, k1], axis=k1), name="top", tag="max")
    e = te.compute((m, n), lambda i, j: te.exp(A[i, j] - top[i]), name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    out = te.compute((m, n), lambda i, j: e[i, j] / total[i], name="out", tag="softmax")
    return top, e, total, out


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_softmax_of_producers_first(check, order):
    """The producers of a row go to a loop that their readers are not in yet."""
    top, e, total, out = softmax()
    s = te.create_schedule(out.op)
    for n in order:
        s[(top, e, total)[n]].compute_at(s[out], out.op.axis[0])
    s[out].parallel(out.op.axis[0])
    met(s, check, compiled=order == (0, 1, 2))
    assert [len(s.schedule.get_loops(b)) for b in s.schedule.get_blocks()] == [2, 2, 2, 2]
    assert {s.schedule.get_loops(b)[0] for b in s.schedule.get_blocks()} == {"i_out"}


def test_softmax_of_one_row_for_each_iteration_of_a_split(check):
    """The axis is split after others were put in it, and the exponentials are computed twice."""
    top, e, total, out = softmax()
    s = te.create_schedule(out.op)
    s[top].compute_at(s[e], e.op.axis[0])
    s[e].compute_inline()
    s[total].compute_at(s[out], out.op.axis[0])
    s[e].compute_root()
    s[e].compute_at(s[out], out.op.axis[0])
    io, ii = s[out].split(out.op.axis[0], nparts=2)
    s[out].parallel(io)
    met(s, check)
    assert all("i_out_1" in s.schedule.get_loops(b) for b in s.schedule.get_blocks())


def test_reader_that_is_inlined_later(check):
    """The producer goes to a stage that does not read it until another is inlined."""
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] + 1.0, name="C")
    D = te.compute((6, 8), lambda i, j: C[i, j] * C[i, j], name="D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[D], D.op.axis[0])
    s[B].vectorize(B.op.axis[1])
    with pytest.raises(ScheduleError, match="reader 'C' of 'B' is outside loop 'i' of s"):
        s.normalize()
    s[C].compute_inline()
    met(s, check)
    assert s.schedule.get_blocks() == ["B", "D"]


def injective(s, tensor):
    """A schedule for any elementwise operation: what it reads is inlined by what its tag says."""

    def inline(t):
        for source in t.op.input_tensors:
            inline(source)
            if isinstance(source.op, te.ComputeOp) and source.op.tag in ("elemwise", "broadcast"):
                s[source].compute_inline()

    inline(tensor)
    fused = s[tensor].fuse(*s[tensor].op.axis)
    outer, inner = s[tensor].split(fused, factor=16)
    s[tensor].vectorize(inner)
    s[tensor].parallel(outer)


def test_injective(check):
    A, bias = te.placeholder((4, 7, 3), name="A"), te.placeholder((3,), name="bias")
    B = te.compute(A.shape, lambda *i: A(*i) + bias[i[2]], name="B", tag="broadcast")
    C = te.compute(A.shape, lambda *i: te.max(B(*i), 0.0), name="C", tag="elemwise")
    D = te.compute(A.shape, lambda *i: C(*i) * 2.0, name="D", tag="elemwise")
    s = te.create_schedule([D.op])
    injective(s, D)
    met(s, check)
    assert s.schedule.get_blocks() == ["D"]


def conv2d(c=3, h=7, o=4):
    data, kernel = te.placeholder((c, h, h), name="data"), te.placeholder((o, c, 3, 3), name="kern")
    padded = te.compute(
        (c, h + 2, h + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < h + 1, x >= 1, x < h + 1), data[c, y - 1, x - 1], 0.0
        ),
        name="padded",
        tag="injective,pad",
    )
    rc, ry, rx = (te.reduce_axis((0, n), name) for n, name in ((c, "rc"), (3, "ry"), (3, "rx")))
    conv = te.compute(
        (o, h, h),
        lambda f, y, x: te.sum(
            padded[rc, y + ry, x + rx] * kernel[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
        tag="conv2d_nchw",
    )
    relu = te.compute((o, h, h), lambda f, y, x: te.max(conv[f, y, x], 0.0), name="relu")
    return data, padded, conv, relu


def test_conv2d_whose_consumer_is_split_afterwards(check):
    data, padded, conv, relu = conv2d()
    s = te.create_schedule(relu.op)
    f, y, x = s[relu].op.axis
    s[padded].compute_at(s[relu], y)
    cache = s.cache_write(conv, "local")
    s[conv].compute_inline()
    s[cache].compute_at(s[relu], x)
    fc, yc, xc = s[cache].op.axis
    rc, ry, rx = s[cache].op.reduce_axis
    s[cache].reorder(rc, ry, rx, fc, yc, xc)
    s[cache].vectorize(xc)
    yo, yi = s[relu].split(y, factor=2)
    xo, xi = s[relu].split(x, factor=4)
    s[relu].reorder(f, yo, xo, yi, xi)
    s[cache].compute_root()
    s[cache].compute_at(s[relu], xo)
    s[padded].compute_root()
    s[padded].compute_at(s[relu], yo)
    s[cache].unroll(ry)
    fused = s[relu].fuse(f, yo)
    s[relu].parallel(fused)
    met(s, check)
    assert s.schedule.get_blocks() == ["padded", "conv", "relu"]


def dense(m=8, n=12, k=10):
    A, B = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), name="C", tag="dense")
    return A, B, C


def test_dense_in_shared_memory():
    """Copies in shared memory are bound to threads before those who read them are, and placed
    before the product is split."""
    A, B, C = dense()
    s = te.create_schedule(C.op)
    copies = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    CC = s.cache_write(C, "local")
    y, x = s[C].op.axis
    for copy in copies:
        s[copy].bind(copy.op.axis[0], te.thread_axis("threadIdx.y"))
        s[copy].compute_at(s[C], x)
    s[CC].compute_at(s[C], x)
    by, ty = s[C].split(y, factor=4)
    bx, tx = s[C].split(x, factor=4)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(ty, te.thread_axis((0, 4), "threadIdx.y"))
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].reorder(by, bx, ty, tx)
    in_threads = str(s.func)
    for copy in copies:
        s[copy].compute_at(s[C], bx)
    s[CC].compute_at(s[C], ty)
    text = str(s.func)
    assert text.count("blockIdx") == 2 and text.count("threadIdx.y") == 3
    assert in_threads.count("threadIdx.y") == 2  # a row of B a step has one iteration
    assert str(Schedule(s.prim_func).apply(s.trace).func) == text


def test_pooling_with_an_inlined_pad(check):
    A = te.placeholder((2, 6, 6), name="A")
    pad = te.compute(
        (2, 8, 8),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < 7, x >= 1, x < 7), A[c, y - 1, x - 1], te.min_value("float32")
        ),
        name="pad",
        tag="injective,pad",
    )
    dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    pool = te.compute(
        (2, 3, 3),
        lambda c, y, x: te.max(pad[c, y * 2 + dy, x * 2 + dx], axis=[dy, dx]),
        name="pool",
        tag="pool_max",
    )
    out = te.compute((2, 3, 3), lambda *i: pool(*i) * 0.5, name="out", tag="elemwise")
    s = te.create_schedule(out.op)
    cached = s.cache_write(pool, "local")
    s[cached].unroll(s[cached].op.reduce_axis[1])
    s[pool].compute_inline()
    s[cached].compute_at(s[out], s[out].op.axis[1])
    s[pad].compute_inline()
    s[out].parallel(s[out].fuse(*s[out].op.axis[:2]))
    met(s, check)
    assert s.schedule.get_blocks() == ["pool", "out"]


def test_argmax(check):
    A = te.placeholder((4, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    pick = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="pick",
    )
    at, best = te.compute((4,), lambda i: pick((k.astype("int32"), A[i, k]), axis=k), name="top")
    out = te.compute((4,), lambda i: at[i].astype("float32") + best[i], name="out")
    s = te.create_schedule(out.op)
    s[at].compute_at(s[out], out.op.axis[0])
    ko, ki = s[at].split(at.op.reduce_axis[0], factor=4)
    s[at].unroll(ki)
    s[out].parallel(out.op.axis[0])
    met(s, check)


def test_the_error_names_the_request_and_the_axes(check):
    """No name of a loop that primitives made appears, and what was asked can be taken back."""
    A, B, C = dense()
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", [C])
    D = s.cache_read(AA, "local", [C])
    y, x = C.op.axis
    yo, yi = s[C].split(y, 4)
    s[AA].compute_at(s[C], yi)
    s[C].reorder(yo, x, yi)
    d0, d1 = s[D].split(D.op.axis[1], 2)
    s[C].parallel(x)
    with pytest.raises(ScheduleError) as caught:
        s.normalize()
    error = caught.value
    text = str(error)
    assert text.startswith(
        "s[A.local].compute_at(s[C], i.inner): reader 'A.local.local' of 'A.local' is outside "
        "loop 'i.inner' of s[C]\n  hint: loops that cover its readers: ax0 of s[A.local.local], "
        "ax1.outer of s[A.local.local], ax1.inner of s[A.local.local]\n"
        "  asked for in test_te_order.py:"
    ), text
    assert "; s.withdraw(error.request) takes it back\nstages:\n" in text
    assert "  s[C]: i.outer, j, i.inner, r; parallel(j)" in text
    assert "  s[A.local]: ax0, ax1; at i.inner of s[C]" in text
    assert error.headline in text.replace("\n  hint: ", "; ")
    assert error.cause.where in s.prim_func.name or error.cause.state is not None
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == text and again.call == error.call and isinstance(again, ScheduleError)
    link = error  # what led to it goes along where errors are sent with their causes
    while (link := link.__cause__ or link.__context__) is not None:
        assert str(pickle.loads(pickle.dumps(link))) == str(link)
    s.withdraw(error.request)
    s[AA].compute_at(s[D], d0)
    met(s, check)


def test_places_in_stages_that_are_gone_or_come_later():
    top, e, total, out = softmax()
    s = te.create_schedule(out.op)
    s[top].compute_at(s[e], e.op.axis[0])
    s[e].compute_inline()
    with pytest.raises(ScheduleError, match=r"s\[e\] runs before s\[top\] or is inlined"):
        s.normalize()
    s[e].compute_root()
    s[total].compute_at(s[top], top.op.axis[0])
    with pytest.raises(ScheduleError, match=r"s\[top\] runs before s\[total\] or is inlined"):
        s.normalize()
    s.withdraw(s.requests[-1])
    first = s[total].decompose_reduction(total.op.reduce_axis[0])
    for call in (
        lambda: s[first].compute_at(s[out], out.op.axis[0]),
        lambda: s[first].compute_inline(),
        lambda: s.cache_write(first, "local"),
        lambda: s.cache_read(first, "local", [out]),
    ):
        with pytest.raises(ScheduleError, match="first values of s.total. stay before loop 'k2'"):
            call()
    s.normalize()


@pytest.mark.parametrize("asked", ["cache", "cached"])
def test_blocks_and_buffers_that_have_changed_names(asked):
    """After cache_write the block C computes the buffer C_local, and the block C_local copies it
    to C: messages call each by the name of its stage."""
    A, B, C = dense()
    D = te.compute((8, 12), lambda i, j: C[i, j] + C[7 - i, j], name="D")
    s = te.create_schedule(D.op)
    CC = s.cache_write(C, "local")
    if asked == "cache":
        s[CC].compute_at(s[D], D.op.axis[0])
        words = "reader 'C' of 'C.local' is outside loop 'i' of s[D]"
    else:
        s[CC].compute_inline()
        words = "block 'C.local' is a reduction, or stores to something else"
    with pytest.raises(ScheduleError) as caught:
        s.normalize()
    assert words in caught.value.reason


def test_requests_are_taken_back():
    A, B, C = dense()
    s = te.create_schedule(C.op)
    plain = str(s.func)
    outer, inner = s[C].split(C.op.axis[0], 4)
    first = s.requests[0]
    s[C].vectorize(inner)
    scalar = s.requests[1]
    with pytest.raises(TensorIRError, match=r"undo\(2\) takes it back with them"):
        s.withdraw(first)
    s.withdraw(scalar)
    assert "vectorized" not in str(s.func)
    with pytest.raises(TensorIRError, match="was taken back"):
        s.withdraw(scalar)
    s.undo()
    assert str(s.func) == plain
    assert all(map(operator.is_, s[C].leaves, (*C.op.axis, *C.op.reduce_axis)))
    assert not s.requests


def test_nothing_is_made_before_it_is_asked_for(monkeypatch):
    from schedule.te import schedule as module

    made = []
    real = module.StageMaker

    def counted(*args):
        made.append(args)
        return real(*args)

    monkeypatch.setattr(module, "StageMaker", counted)
    top, e, total, out = softmax()
    s = te.create_schedule(out.op)
    for stage in (top, e, total):
        s[stage].compute_at(s[out], out.op.axis[0])
    s[out].split(out.op.axis[1], 4)
    assert not made
    assert s.func is s.func and len(s.trace) and s.schedule
    assert len(made) == 1
