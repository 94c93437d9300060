"""Transposes, reductions and softmax for GPUs: the same values before and after lowering."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, library
from schedule.library import gpu
from tensorir import (
    Alloc,
    Target,
    interpret,
    known_algorithms,
    lower,
    ops,
    parse,
    prove,
    reference,
    te,
    walk,
)
from tensorir.algorithms.scans import scan_algorithm

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402


def checked(func, schedule, lowered=True, races=True):
    """Schedule `func`; the rules hold and the values are those of the definition."""
    sch = Schedule(func)
    schedule(sch)
    prove(parse(str(sch.func)))
    if races:
        assert race(sch.func) is None and unseen(sch.func) is None
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.inputs]
    wanted = reference(func, *inputs)
    for found, value in zip(interpret(sch.func, *inputs), wanted, strict=True):
        np.testing.assert_allclose(found, value, 1e-5, 1e-5)
    low = lower(sch.func, Target.parse("cuda"))
    flat = interpret(low, *[x.ravel() for x in inputs], races=True)
    for found, value in zip(flat, wanted, strict=True):
        np.testing.assert_allclose(found, value.ravel(), 1e-5, 1e-5)
    return sch


def transposing(n, m):
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i], name="B")
    return te.create_prim_func([a, b], name="turn")


@pytest.mark.parametrize("shape", [(16, 8), (13, 9), (1, 3)])
def test_transpose(shape, golden):
    sch = checked(transposing(*shape), lambda s: gpu.transpose(s, "B", warps=2, tile=8))
    if shape == (13, 9):
        golden(str(sch.func), "transpose")


@pytest.mark.parametrize("shape", [(16, 8), (13, 9)])
def test_results_are_turned_where_not_every_element_is_read(shape):
    n, m = shape
    a, c = te.placeholder((n, m), name="A"), te.placeholder((m, 2), name="C")
    b = te.compute(
        (m + 3, n),
        lambda i, j: te.if_then_else(i < m, a[j, te.minimum(i, m - 1)] * c[i % m, 0], 1.0),
        name="B",
    )  # fmt: skip
    func = te.create_prim_func([a, c, b], name="turn")
    checked(func, lambda s: gpu.transpose(s, "B", warps=2, tile=8, results=True))


def turned_softmax(rows, columns):
    """The softmax of rows, whose results are columns, laid out by a block of its own."""
    x = te.placeholder((rows, columns), name="A")
    y = ops.softmax(x, name="S")
    out = te.compute((columns, rows), lambda j, i: y[i, j], name="T")
    return te.create_prim_func([x, out], name="turned")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "how"),
    [((16, 40), {}), ((11, 70), {}), ((11, 70), {"by": "block", "warps": 2, "turns": 4})],
)
def test_rows_are_turned_in_shared_memory(shape, how):
    sch = checked(turned_softmax(*shape), lambda s: gpu.turned_rows(s, "S", **how))
    assert sch.state.block("S").body.buffer.scope == "shared"


def test_rows_are_turned_by_one_block():
    x = te.placeholder((8, 40), name="A")
    y = ops.softmax(x, name="S")
    out = [te.compute((40, 8), lambda j, i, n=n: y[i, j] + n, name=f"T{n}") for n in range(2)]
    sch = Schedule(te.create_prim_func([x, *out], name="turned"))
    with pytest.raises(ScheduleError, match="not taken to their place by one block alone"):
        gpu.turned_rows(sch, "S")


@pytest.mark.parametrize("results", [1, 2])
def test_rows_of_one_result_are_turned_to_any_number(results):
    x = te.placeholder((16, 40), name="A")
    y = ops.softmax(x, name="S")
    if results == 2:
        y, _ = te.compute((16, 40), lambda i, j: (y[i, j], y[i, j] + 1.0), name="S2")
    out = te.compute((40, 16), lambda j, i: (y[i, j] * 2.0, y[i, j] + 1.0), name="T")
    func = te.create_prim_func([x, *out], name="turned")
    if results == 1:
        checked(func, lambda s: gpu.turned_rows(s, "S"))
        return
    with pytest.raises(ScheduleError, match="block 'S2' has results in 2 arrays"):
        gpu.turned_rows(Schedule(func), "S2")


def test_results_are_turned_where_they_are_stored_at_variables():
    a = te.placeholder((8, 16), name="A")
    split = te.compute((16, 8), lambda i, j: a[j, i], name="B")
    sch = Schedule(te.create_prim_func([a, split], name="turn"))
    sch.transform_block_layout("B", "i, j: i * 8 + j")
    with pytest.raises(ScheduleError, match="does not store at its own variables"):
        gpu.transpose(sch, "B", results=True)


def sums(n, m, combine=te.sum, axis=1):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m if axis else n, name="k")
    element = (lambda i: a[i, k]) if axis else (lambda i: a[k, i])
    s = te.compute((n if axis else m,), lambda i: combine(element(i), axis=k), name="S")
    return te.create_prim_func([a, s], name="sums")


@pytest.mark.parametrize("by", ["warp", "block"])
@pytest.mark.parametrize(("shape", "combine"), [((5, 70), te.sum), ((1, 3), te.max)])
def test_row_reduction(by, shape, combine):
    checked(sums(*shape, combine), lambda s: gpu.rows(s, "S", by=by, warps=2))


@pytest.mark.parametrize(
    ("by", "shape", "keep", "scopes"),
    [
        ("warp", (5, 37), None, {"shared"}),
        ("block", (5, 64), None, {"local"}),
        ("block", (1, 7), "nothing", {"shared"}),
        ("block", (3, 5), "shared", {"shared"}),
        ("lanes", (5, 7), None, set()),
    ],
)
def test_what_all_rows_read_is_read_once(by, shape, keep, scopes):
    """It is kept where there is room beside the rows; rows of a block need not divide. All is bound
    in the last step: what threads share is proved with each that follows."""
    a, g = te.placeholder(shape, name="A"), te.placeholder(shape[1:], name="G")
    func = te.create_prim_func([a, g, ops.rms_norm(a, g, name="S")], name="norm")

    def in_turns(sch):
        gpu.rows(sch, "S", by=by, warps=2, turns=2, keep=keep)

    sch = checked(func, in_turns, races=by == "warp")
    copies = {b for b in sch.get_blocks() if b.startswith("G_")}
    assert copies == {f"G_{scope}" for scope in scopes}
    assert [step.name for step in sch.trace.instructions].index("bind") == len(sch.trace) - 1


def test_who_shares_a_row_is_known():
    with pytest.raises(ScheduleError, match="by='grid' is not one of block, warp, lanes"):
        gpu.rows(Schedule(sums(4, 5)), "S", by="grid")


@pytest.mark.parametrize("shape", [(37, 9), (3, 1)])
def test_column_reduction(shape):
    checked(sums(*shape, axis=0), lambda s: gpu.columns(s, "S", warps=4))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("shape", [(70, 3), (19, 33), (50, 1), (1, 5)])
def test_blocks_of_whole_rows_of_columns(shape, parts):
    """Threads side by side have columns side by side, and those of the next row: also of what is
    done to the sums, and behind other axes."""
    checked(sums(*shape, axis=0), lambda s: gpu.columns(s, "S", warps=3, parts=parts, whole=True))
    a = te.placeholder((2, *shape), name="A")
    k = te.reduce_axis(shape[0], name="k")
    s = te.compute((2, shape[1]), lambda b, j: te.sum(a[b, k, j], axis=k), name="S")
    t = te.compute(s.shape, lambda b, j: s[b, j] * 0.5, name="T")
    checked(
        te.create_prim_func([a, t], name="halved"),
        lambda s: gpu.columns(s, "S", warps=3, parts=parts, whole=True, epilogue="T"),
    )


def test_columns_of_several_axes_are_one_row():
    """Threads side by side have all of them, wherever the last axis ends."""
    a = te.placeholder((70, 3, 5, 2), name="A")
    k = te.reduce_axis(70, name="k")
    s = te.compute(a.shape[1:], lambda i, j, c: te.sum(a[k, i, j, c], axis=k), name="S")
    func = te.create_prim_func([a, s], name="columns")
    checked(func, lambda s: gpu.columns(s, "S", warps=2, whole=True))
    sch = Schedule(func)
    gpu.columns(sch, "S", warps=2, whole=True)
    (threads,) = {f.const_extent for f in sch.state.loops_around("S") if f.thread == "threadIdx.x"}
    assert threads == 30


def test_more_columns_than_threads_are_refused():
    sch = Schedule(sums(4, 65, axis=0))
    with pytest.raises(ScheduleError, match="64 threads have no room for two rows"):
        gpu.columns(sch, "S", warps=2, whole=True)
    assert not len(sch.trace)


@pytest.mark.parametrize("shape", [(2, 300), (1, 7)])
def test_reduction_to_few_values_in_two_kernels(shape):
    sch = checked(sums(*shape), lambda s: gpu.whole(s, "S", blocks=4, warps=1))
    assert len(sch.func.body.stmts) == 2


@pytest.mark.parametrize("shape", [(2, 300), (3, 37), (5, 67)])
def test_parts_of_rows_that_begin_within_sectors(shape):
    sch = checked(sums(*shape), lambda s: gpu.whole(s, "S", blocks=4, warps=1, sectors=True))
    assert [b.scope for b in sch.func.buffers].count("shared") == 1


def test_one_row_has_pieces_of_16_bytes():
    """Its loop of one iteration is none of the terms."""
    sch = Schedule(sums(1, 4096))
    gpu.whole(sch, "S", blocks=2, warps=1)
    (first, *_) = sch.func.body.stmts
    text = str(first)
    assert 'thread("threadIdx.x", 32)' in text and "vectorized(4)" in text


@pytest.mark.parametrize("shape", [(2, 300), (1, 260), (3, 37), (2, 1)])
def test_long_rows(shape):
    """Parts of each sum, the sum of these, and the result: a kernel each."""
    a, g = te.placeholder(shape, name="A"), te.placeholder(shape[1:], name="g")
    for result, kernels in ((ops.softmax(a, name="S"), 5), (ops.rms_norm(a, g, name="S"), 3)):
        given = [a, result] if kernels == 5 else [a, g, result]
        func = te.create_prim_func(given, name="long")
        sch = checked(func, lambda s: gpu.long_rows(s, "S", blocks=4, warps=1), races=False)
        assert len(sch.func.body.stmts) == kernels


@pytest.mark.parametrize(("shape", "kernels"), [((300, 2), 5), ((37, 40), 5), ((1, 5), 3)])
def test_long_rows_side_by_side(shape, kernels):
    """Lanes have rows that are neighbours in memory; of one element there are no parts."""
    a = te.placeholder(shape, name="A")
    func = te.create_prim_func([a, ops.softmax(a, axis=0, name="S")], name="long")
    sch = checked(
        func, lambda s: gpu.long_rows(s, "S", by="lanes", blocks=4, warps=2), races=False
    )
    assert len(sch.func.body.stmts) == kernels
    with pytest.raises(ScheduleError, match="by='grid' is not one of block, lanes"):
        gpu.long_rows(Schedule(func), "S", by="grid")


@pytest.mark.parametrize("shape", [(70, 5), (3, 50, 4), (50, 3, 2), (1, 7)])
def test_short_rows(shape):
    """Sums, and what is computed of them for each element; pieces of rows are boxes of them."""
    a = te.placeholder(shape, name="A")
    for result in (ops.softmax(a, name="S"), ops.argmax(a, -1, name="S"), ops.sum(a, -1, name="S")):
        sch = checked(
            te.create_prim_func([a, result], name="short"),
            lambda s: gpu.short_rows(s, "S", warps=2), races=False,
        )  # fmt: skip
        arrays = 2 if result.shape == a.shape else 1
        assert str(sch.func).count('scope="shared"') == arrays


@pytest.mark.parametrize("shape", [(70, 5, 3), (3, 50, 4, 6), (1, 7, 2)])
def test_short_rows_side_by_side(shape):
    """Rows that are few columns in memory: what lies there is copied as it lies, by neighbours."""
    a = te.placeholder(shape, name="A")
    for result in (ops.softmax(a, -2, name="S"), ops.argmax(a, -2, name="S")):
        func = te.create_prim_func([a, result], name="short")
        checked(func, lambda s: gpu.short_rows(s, "S", warps=2), races=False)


def test_rows_that_no_thread_has_alone_are_refused():
    a = te.placeholder((8,), name="A")
    for func in (sums(3, 65), te.create_prim_func([a, ops.sum(a, name="S")], name="one")):
        sch = Schedule(func)
        before = sch.func
        with pytest.raises(ScheduleError, match="more than 64 elements, or are all one"):
            gpu.short_rows(sch, "S")
        assert sch.func is before


def test_tiles_that_have_no_partial_sums_leave_the_schedule_as_it_was():
    """Sums in parts are made first; those of warps are refused after that."""
    sch = Schedule(sums(64, 300, axis=0))
    c, before = library.find_contraction(sch, "S"), sch.func
    cuts = [gpu.Cut(), gpu.Cut()]
    cuts[c.spatial[-1]], cuts[c.reduced[0]] = gpu.Cut(lanes=32), gpu.Cut(warps=64)
    plan = gpu.TilePlan(tuple(cuts), (), c.written, split=2, along=c.reduced[0])
    with pytest.raises(ScheduleError, match="save nothing"):
        gpu.make_tiles(sch, c, plan)
    assert sch.func is before


@pytest.mark.parametrize(("columns", "keep"), [(67, "shared"), (130, None), (101, "nothing")])
def test_rows_that_begin_within_a_sector(columns, keep):
    """Lanes begin where sectors do, in the first, in some and in the last pieces of a row."""
    a = te.placeholder((5, columns), name="A")
    func = te.create_prim_func([a, ops.softmax(a)], name="softmax_rows")
    last = Schedule(func).get_blocks()[-1]
    sch = checked(func, lambda s: gpu.rows(s, last, warps=1, keep=keep, sectors=True), races=False)
    assert "shifted" in str(sch.func)
    assert shared_elements(sch.func) == (columns if keep != "nothing" else 0)
    with pytest.raises(ScheduleError, match="reduced by the threads that read them"):
        gpu.rows(Schedule(func), last, keep="registers", sectors=True)


@pytest.mark.parametrize(("kind", "kept"), [("float32", 32768), ("float64", 16384)])
def test_threads_keep_rows_in_half_of_their_registers(kind, kept):
    """Of four bytes each: elements of eight are two."""
    for length in (kept, kept + 1024):
        a = te.placeholder((3, length), kind, name="A")
        sch = Schedule(te.create_prim_func([a, ops.softmax(a)], name="softmax_rows"))
        made = gpu.rows(sch, sch.get_blocks()[-1], warps=32)
        assert (made.keep == "registers") == (length == kept)


def test_rows_of_several_warps_begin_within_a_sector():
    """Each warp has its row in shared memory, which other rows do not share."""
    func = sums(7, 37)

    def in_sectors(sch):
        gpu.rows(sch, "S", by="warp", warps=2, keep="shared", sectors=True)

    assert shared_elements(checked(func, in_sectors, races=False).func) == 2 * 37


def shared_elements(func):
    """Those of arrays in shared memory, of a block of threads of the only kernel."""
    low = lower(func, Target.parse("cuda"), until="place_buffers")
    found = [s.buffer for s in walk(low.body) if isinstance(s, Alloc)]
    return sum(prod(b.const_shape) for b in found if b.scope == "shared" and "_shared" in b.name)


@pytest.mark.parametrize("by", ["warp", "block"])
@pytest.mark.parametrize("shape", [(5, 37), (1, 1)])
def test_softmax(by, shape, golden):
    a = te.placeholder(shape, name="A")
    func = te.create_prim_func([a, ops.softmax(a)], name="softmax_rows")
    last = Schedule(func).get_blocks()[-1]
    sch = checked(func, lambda s: gpu.rows(s, last, by=by, warps=2), races=by == "warp")
    if shape == (5, 37):
        golden(str(sch.func), f"softmax_{by}")


@pytest.mark.parametrize(
    ("shape", "other"),
    [((5, 12), (12,)), ((3, 4, 6), (4, 6)), ((7, 5), (5,)), ((2, 3, 8), (1, 8)), ((9, 1, 8), (8,))],
)
def test_what_all_rows_read_is_read_once_for_some_rows(shape, other):
    x, v = te.placeholder(shape, name="x"), te.placeholder(other, name="v")
    func = te.create_prim_func([x, v, ops.add(x, v, name="S")], name="biased")
    sch = checked(func, lambda s: gpu.same_rows(s, "S", threads=8, rows=2))
    assert 'v_local = alloc' in str(sch.func)


def test_rows_that_read_nothing_alike_are_refused():
    """Also what is read once for a row, and reductions; nothing is changed."""
    x, v = te.placeholder((6, 8), name="x"), te.placeholder((6, 1), name="v")
    for result in (ops.relu(x, name="S"), ops.add(x, v, name="S")):
        sch = Schedule(te.create_prim_func([x, v, result], name="rows"))
        before = sch.func
        with pytest.raises(ScheduleError, match="reads nothing for all rows alike"):
            gpu.same_rows(sch, "S")
        assert sch.func is before
    with pytest.raises(ScheduleError, match="is a reduction"):
        gpu.same_rows(Schedule(sums(3, 4)), "S")


@pytest.mark.parametrize(
    ("shape", "axis", "copy"),
    [((9, 5), 0, "A_local"), ((3, 7, 2), 1, "A_local"), ((6,), 0, "A_shared")],
)
def test_each_thread_takes_a_row_through_all_steps(shape, axis, copy):
    """Steps that follow each other in memory are fetched by all threads together."""
    a = te.placeholder(shape, name="A")
    func = te.create_prim_func([a, ops.cumsum(a, axis, name="S")], name="running")
    sch = checked(func, lambda s: gpu.recurrence(s, "step", threads=4, ahead=3))
    assert f"{copy} = alloc" in str(sch.func)


RUNNING = {
    "short rows": ((9, 6), {}, 1),
    "rows of a block": ((3, 30), {}, 1),
    "the element before": ((70, 4), {"exclusive": True}, 1),
    "in the middle": ((2, 7, 3), {"axis": 1, "reverse": True}, 1),
    "rows of several blocks": ((3, 77), {}, 3),
    "one row of several blocks": ((95,), {}, 3),
    "backwards in several blocks": ((2, 50), {"reverse": True}, 4),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RUNNING)
def test_threads_share_rows_of_a_scan(name, monkeypatch):
    """Blocks of eight threads have forty elements; what is longer is cut."""
    monkeypatch.setitem(known_algorithms(), "scan_8x5", scan_algorithm(8, 5))
    shape, options, kernels = RUNNING[name]
    a = te.placeholder(shape, name="A")
    func = te.create_prim_func([a, ops.cumsum(a, **options, name="S")], name="running")
    reader = "S" if len(shape) > 1 else None
    sch = checked(func, lambda s: gpu.scan(s, "step", threads=8, elements=5, reader=reader))
    assert str(sch.func).count('thread("blockIdx.x"') == kernels
    assert sch.numerics == "reassociated"
    steps = [step.name for step in sch.trace.instructions]
    left = steps[steps.index("bind") :]  # each asks what threads share: those of scans come before
    assert {"use_algorithm", "set_scope", "merge", "transform_layout"}.isdisjoint(left)


def test_a_scan_is_computed_with_readers_of_its_rows_alone(monkeypatch):
    """What reads two states has loops over neither's rows."""
    monkeypatch.setitem(known_algorithms(), "scan_8x5", scan_algorithm(8, 5))
    x, state = te.placeholder((8, 33), name="X"), te.state((8, 33), name="state")
    first = te.compute((1, 33), lambda _, i: x[0, i], name="first")
    step = te.compute((8, 33), lambda t, i: te.max(state[t - 1, i], x[t, i]), name="step")
    states = te.scan(first, step, state, name="s")
    shape = (3, 15, 3)
    read = te.compute(shape, lambda i, j, k: states[0, k] * states[j % 8, 2 * i + 2 * k], "out")
    func = te.create_prim_func([x, read], name="mixed")
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="are no rows of the states"):
        gpu.scan(sch, "step", threads=8, elements=5, reader="out")
    assert sch.func is func


def test_a_scan_that_begins_with_something_else(monkeypatch):
    """Maxima of integers from a row of their own on, along which rows are contiguous."""
    monkeypatch.setitem(known_algorithms(), "scan_2x5", scan_algorithm(2, 5))
    x, y = te.placeholder((23, 3), "int32", name="X"), te.placeholder((3,), "int32", name="Y")
    state = te.state((23, 3), "int32", name="state")
    first = te.compute((1, 3), lambda _, i: y[2 - i] * 2, name="first")
    step = te.compute((23, 3), lambda t, i: te.max(x[t, i] * 3, state[t - 1, i]), name="step")
    func = te.create_prim_func([x, y, te.scan(first, step, state, name="s")], name="top")
    checked(func, lambda s: gpu.scan(s, "step", threads=2, elements=5))


def test_what_is_no_step_of_a_scan():
    """Other blocks, and rows that read each other's states; nothing is changed."""
    a = te.placeholder((6, 4), name="A")
    running = te.create_prim_func([a, ops.cumsum(a, 0, name="S")], name="running")
    state = te.state((6, 4), name="state")
    first = te.compute((1, 4), lambda _, i: a[0, i], name="first")
    step = te.compute((6, 4), lambda t, i: state[t - 1, 3 - i] + a[t, i], name="step")
    mixed = te.create_prim_func([a, te.scan(first, step, state, name="s")], name="mixed")
    for func, block, reason in (
        (running, "first", "block 'first' is no step of a scan"),
        (mixed, "step", "may touch elements of 's' that another one writes"),
    ):
        sch = Schedule(func)
        with pytest.raises(ScheduleError, match=reason):
            gpu.recurrence(sch, block)
        assert sch.func is func
        with pytest.raises(ScheduleError, match="is no step of a scan"):
            gpu.scan(sch, block)
        assert sch.func is func


def test_what_no_box_is_for():
    """A reduction, other sizes than axes, and what is read as it is written; nothing is changed."""
    a = te.placeholder((4, 6), name="A")
    same = Schedule(te.create_prim_func([a, te.compute((4, 6), lambda i, j: a[i, j], name="B")]))
    turned = Schedule(te.create_prim_func([a, te.compute((6, 4), lambda i, j: a[j, i], name="B")]))
    k = te.reduce_axis(6, name="k")
    total = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    for sch, sizes, reason in (
        (same, (2, 2), "reads all in the order that it writes"),
        (turned, (2,), "1 sizes for the 2 axes of block 'B'"),
        (Schedule(te.create_prim_func([a, total])), (2,), "block 'B' is a reduction"),
    ):
        before = str(sch.func)
        with pytest.raises(ScheduleError, match=reason):
            gpu.boxes(sch, "B", sizes)
        assert str(sch.func) == before
