"""Blocks that call extern functions: their loops are free, their rows are not."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build, register_extern
from schedule import Schedule, create_schedule
from tensorir import ExternFunc, interpret, te


def make(n=6, m=9, dtype="float32"):
    """P = 2 A, S = sorted rows of P, Q = S + P."""
    a = te.placeholder((n, m), dtype, name="A")
    p = te.compute((n, m), lambda i, j: a[i, j] * 2, name="P")
    s = te.extern((n, m), p, "sort", name="S")
    q = te.compute((n, m), lambda i, j: s[i, j] + p[i, j], name="Q")
    return te.create_prim_func([a, q], name="rows")


def check_symbolic(sch):
    for shape in ((6, 9), (1, 1), (7, 4), (0, 3), (3, 0)):
        a = np.random.default_rng(0).integers(-4, 5, shape).astype("float32")
        wanted = np.sort(a * 2, axis=1) + a * 2
        np.testing.assert_array_equal(interpret(sch.func, a, races=True)[0], wanted)
        np.testing.assert_array_equal(build(sch)(a), wanted)


def test_loops_over_rows(check, golden):
    sch = Schedule(make(7, 5))
    outer, inner = sch.split("i_S", [None, 3])
    sch.parallel(outer)
    sch.unroll(inner)
    golden(str(sch.func), "loops")
    assert sch.numerics == "bitwise"
    check(sch)


def test_two_dimensions_of_rows(check):
    a = te.placeholder((3, 4, 5), name="A")
    func = te.create_prim_func([a, te.extern((3, 4, 5), a, "sort", name="S")], name="f")
    sch = Schedule(func)
    sch.reorder("j", "i")
    fused = sch.fuse("j", "i")
    sch.parallel(sch.split(fused, [None, 5])[0])
    check(sch)


def test_everything_in_one_loop(check, golden):
    """A row of each intermediate is left, of which no dimension that is handed over shrinks."""
    sch = Schedule(make())
    sch.compute_at("S", "i_Q")
    sch.compute_at("P", "i_Q")
    sch.vectorize("j")
    sch.parallel("i_Q")
    golden(str(sch.func), "one_loop")
    source = build(sch).source
    assert "float P[9]" in source and "float S[9]" in source
    check(sch)


def test_consumers_of_parts_of_a_row_get_all_of_it(check):
    """Q reads the first three values only; the whole row is sorted all the same."""
    a = te.placeholder((4, 8), name="A")
    s = te.extern((4, 8), a, "sort", name="S")
    q = te.compute((4, 3), lambda i, j: s[i, j], name="Q")
    sch = Schedule(te.create_prim_func([a, q], name="f"))
    sch.compute_at("S", "i_Q")
    assert "float S[8]" in build(sch).source
    check(sch)


def test_producers_and_consumers_in_tiles_of_rows(check):
    sch = Schedule(make(10, 7))
    outer, _ = sch.split("i_S", [None, 4])
    sch.reverse_compute_at("Q", outer)
    sch.compute_at("P", outer)
    sch.parallel(outer)
    assert "float P[28]" in build(sch).source
    check(sch)


@pytest.mark.parametrize("steps", ["", "at", "parallel"])
def test_symbolic_sizes(steps):
    sch = Schedule(make(te.var("n"), te.var("m")))
    if steps:
        sch.compute_at("S", "i_Q")
        sch.compute_at("P", "i_Q")
    if steps == "parallel":
        outer, _ = sch.split("i_Q", [None, 4])
        sch.parallel(outer)
    check_symbolic(sch)


def test_copies(check):
    sch = Schedule(make())
    copy = sch.cache_read("S", "P", "global")
    back = sch.cache_write("S", "S", "global")
    sch.compute_at(copy, "i_S")
    sch.reverse_compute_at(back, "i_S")
    sch.transform_layout(back, "S", "i, j: j, i")
    check(sch)


def test_merge_and_partition(check):
    sch = Schedule(make(6, 4))
    both = sch.merge("i", "i_S")
    check(sch)
    sch = Schedule(make(6, 4))
    sch.partition("i_S", [2, None])
    check(sch)
    assert both


def test_several_outputs(check):
    a = te.placeholder((5, 6), name="A")
    values, places = te.extern([(5, 2), (5, 2)], a, "topk", name="top")
    total = te.compute((5, 2), lambda i, j: values[i, j] + places[i, j].astype("float32"), name="Q")
    sch = Schedule(te.create_prim_func([a, total], name="f"))
    sch.parallel("i")
    check(sch)
    sch.undo()
    sch.compute_at("top", "i_Q")
    sch.parallel("i_Q")
    check(sch)


def test_a_row_and_all_rows_of_one_buffer(check, extern_cleanup):
    """Iterations need all of P, so that it is neither computed in their loop nor cut to a row."""
    text = """
static void $NAME(const float *x, const float *all, float *y, i64 n, i64 m) {
    for (i64 j = 0; j < n; j++) {
        y[j] = x[j];
        for (i64 i = 0; i < m; i++) y[j] += all[i * n + j];
    }
}"""
    dtypes = [("float32",) * 3]
    extern_cleanup()
    func = ExternFunc(
        "test.both", "(n),(m,n)->(n)", dtypes, text, lambda x, all: x + all.sum(axis=0), rtol=1e-5
    )
    register_extern(func)
    a = te.placeholder((4, 5), name="A")
    p = te.compute((4, 5), lambda i, j: a[i, j] + 1.0, name="P")
    s = te.extern((4, 5), [p, p], func, name="S")
    q = te.compute((4, 5), lambda i, j: s[i, j] * 2.0, name="Q")
    sch = Schedule(te.create_prim_func([a, q], name="f"))
    refused(sch.merge, "i", "i_S", match="may touch elements of 'P'")
    sch.compute_at("P", "i_S")
    assert len(sch.get_loops("P")) == 3
    sch.reverse_compute_at("Q", "i_S")
    sch.parallel("i_S")
    assert "float P[20]" in build(sch).source
    check(sch)


ROWS = "needs its rows in global memory"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("vectorize", "i_S"), "no vector form"),
        (("bind", "i_S", "threadIdx.x"), "threads of the CPU"),
        (("tensorize", "i_S", "f32.fma_16"), "no store"),
        (("blockize", "i_S"), "inside of another one"),
        (("reindex", "S", "P"), "its body cannot be rewritten"),
        (("pad_einsum", "S", [4]), "its body cannot be rewritten"),
        (("compute_inline", "S"), "its body cannot be rewritten"),
        (("reverse_compute_inline", "S"), "its body cannot be rewritten"),
        (("rfactor", "S", "i_S"), "its body cannot be rewritten"),
        (("reverse_compute_at", "S", "i"), "its body cannot be rewritten"),
        (("prefetch", "S", "P", "i_S", 2), "its body cannot be rewritten"),
        (("reverse_compute_inline", "Q"), "does not store to its own variables"),
        (("compute_inline", "P"), ROWS),
        (("transform_layout", "P", "P", "i, j: j, i"), ROWS),
        (("transform_layout", "Q", "P", "i, j: j, i"), ROWS),
        (("storage_align", "S", "S", 0, 16), ROWS),
        (("set_scope", "P", 0, "local"), ROWS),
        (("double_buffer", "P"), ROWS),
        (("rolling_buffer", "P"), ROWS),
        (("stream", "P"), ROWS),
        (("narrow", "P"), ROWS),
        (("cache_read", "S", "P"), "local memory"),
        (("cache_write", "S", "S", "shared"), "shared memory"),
    ],
)
def test_what_is_refused(call, message):
    name, *args = call
    refused(getattr(Schedule(make()), name), *args, match=message)


def test_a_pipeline_of_rows_is_refused():
    a = te.placeholder((4, 4), name="A")
    p = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="P")
    func = te.create_prim_func([a, te.extern((4, 4), p, "sort", name="S")], name="f")
    sch = Schedule(func)
    sch.compute_at("P", "i_S")
    refused(sch.pipeline, "i_S", [0, 1], match="stage of a pipeline")


def test_no_call_moves_into_threads():
    sch = Schedule(make(4, 4))
    sch.bind("i_Q", "blockIdx.x")
    refused(sch.compute_at, "S", "i_Q", match="in the thread loop 'i_Q'")


def test_dependences_between_rows():
    """S reads all rows of P in each iteration: loops over P's rows cannot be merged with it."""
    a = te.placeholder((4, 4), name="A")
    p = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="P")
    s = te.extern((4, 4), p, "sort", name="S")
    q = te.compute((4, 4), lambda i, j: s[3 - i, j], name="Q")
    sch = Schedule(te.create_prim_func([a, q], name="f"))
    refused(sch.merge, "i_S", "i_Q", match="may touch elements of 'S'")
    sch.merge("i", "i_S")


def test_moves_and_explanations():
    sch = Schedule(make(4, 4))
    moves = {str(move) for move in sch.legal_moves()}
    assert "parallel('i_S')" in moves and "compute_at('S', 'i_Q')" in moves
    assert "vectorize('i_S')" not in moves and "cache_read('S', 'P', 'local')" not in moves
    assert "no vector form" in str(sch.explain("i_S"))


def test_debug_mode():
    sch = Schedule(make(5, 4), debug=True)
    sch.compute_at("S", "i_Q")
    sch.split("i_Q", [None, 2])


def test_create_schedule(check):
    a = te.placeholder((6, 5), name="A")
    p = te.compute((6, 5), lambda i, j: a[i, j] * 2.0, name="P")
    s = te.extern((6, 5), p, "sort", name="S")
    q = te.compute((6, 5), lambda i, j: s[i, j] + 1.0, name="Q")
    sch = create_schedule(q.op)
    outer, _ = sch[q].split(q.op.axis[0], 4)
    sch[s].compute_at(sch[q], outer)
    sch[p].compute_at(sch[s], s.op.axis[0])
    sch[q].parallel(outer)
    check(sch.schedule)
