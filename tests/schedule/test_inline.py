"""compute_inline: of what nobody reads, of steps of a scan, and not of what changes in between."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule
from tensorir import interpret, parse, te

UNUSED = """
@prim_func
def unused(A: f32[4, 8], C: f32[4]):
    B = alloc(f32[4, 8])
    V = alloc(f32[4])
    I = alloc(i64[4])
    for i, j in grid(4, 8):
        with block("B"):
            vi = spatial(4, i)
            vj = spatial(8, j)
            B[vi, vj] = A[vi, vj] + 1.0
    for i_1, k in grid(4, 8):
        with block("V"):
            vi = spatial(4, i_1)
            vk = reduce(8, k)
            with init():
                V[vi] = 0.0
                I[vi] = 0
            V[vi] = V[vi] + B[vi, vk]
            I[vi] = I[vi] + vk
    for i_2 in range(4):
        with block("C"):
            vi = spatial(4, i_2)
            C[vi] = A[vi, 0]
"""


def test_what_nobody_reads_is_removed(check, golden):
    """Also a reduction, of several values; then what only that read."""
    sch = Schedule(parse(UNUSED))
    sch.compute_inline("V")
    assert sch.get_blocks() == ["B", "C"] and [b.name for b in sch.func.buffers] == ["B"]
    sch.compute_inline("B")
    golden(str(sch.func), "unused")
    check(sch)
    refused(sch.compute_inline, "C", match="'C' is an output")


def recurrence(m=6, n=4, back=1):
    """The step goes through two stages of its own."""
    x = te.placeholder((m, n), name="X")
    w = te.placeholder((n, n), name="W")
    s = te.state((m, n), name="s")
    k = te.reduce_axis(n, name="k")
    first = te.compute((back, n), lambda t, i: x[t, i], name="first")
    g = te.compute((m, n), lambda t, i: s[t - back, n - 1 - i] * 0.5 + x[t, i], name="g")
    h = te.compute((m, n), lambda t, i: te.max(g[t, i], s[t - 1, i]), name="h")
    step = te.compute((m, n), lambda t, i: te.sum(h[t, k] * w[k, i], axis=k), name="step")
    return te.create_prim_func([x, w, te.scan(first, step, s, name="p")], name="recurrence")


@pytest.mark.parametrize("order", [["g"], ["h"], ["g", "h"], ["h", "g"]])
@pytest.mark.parametrize("back", [1, 2])
def test_steps_of_a_scan(check, order, back):
    sch = Schedule(recurrence(back=back))
    for block in order:
        sch.compute_inline(block)
    assert not set(order) & set(sch.get_blocks())
    check(sch)


def test_steps_of_a_scan_of_symbolic_size(golden):
    m, n = te.size_var("m"), te.size_var("n")
    sch = Schedule(recurrence(m, n))
    sch.compute_inline("g")
    sch.compute_inline("h")
    golden(str(sch.func), "scan")


AGAIN = """
@prim_func
def again(A: f32[4], C: f32[4]):
    X = alloc(f32[4])
    B = alloc(f32[4])
    for i in range(4):
        with block("X"):
            vi = spatial(4, i)
            X[vi] = A[vi]
    for i_1 in range(4):
        with block("B"):
            vi = spatial(4, i_1)
            B[vi] = X[vi] + 1.0
    for i_2 in range(4):
        with block("{last}"):
            vi = spatial(4, i_2)
            {stores}
    for i_3 in range(4):
        with block("{after}"):
            vi = spatial(4, i_3)
            {later}
"""
USE, CHANGE = "C[vi] = B[vi] * 2.0", "X[vi] = A[vi] * 3.0"

TOGETHER = """
@prim_func
def together(A: f32[4], X0: f32[4], C: f32[4]):
    X = alloc(f32[4])
    B = alloc(f32[4])
    for t in range(4):
        for i in range(4):
            with block("X"):
                vt = opaque(4, t)
                vi = spatial(4, i)
                X[vi] = X0[vi] + A[vt]
        with block("B"):
            vt = spatial(4, t)
            B[vt] = X[vt] + 1.0
        with block("C"):
            vt = spatial(4, t)
            C[vt] = B[{place}]
"""


def test_what_is_read_is_written_again():
    """The readers would read the new values."""
    text = AGAIN.format(last="X_1", stores=CHANGE, after="C", later=USE)
    sch = Schedule(parse(text))
    refused(sch.compute_inline, "B", match="block 'X_1' may write 'X' again between block 'B'")


def test_what_is_read_is_written_again_after_all_readers(check):
    text = AGAIN.format(last="C", stores=USE, after="X_1", later=CHANGE)
    sch = Schedule(parse(text))
    sch.compute_inline("B")
    check(sch)


def test_what_an_earlier_iteration_read():
    """B keeps what X held in another iteration."""
    sch = Schedule(parse(TOGETHER.format(place="0")))
    refused(sch.compute_inline, "B", match="block 'X' may write 'X' again")


def test_what_the_same_iteration_read():
    sch = Schedule(parse(TOGETHER.format(place="vt")))
    sch.compute_inline("B")
    a, x = np.arange(4, dtype="float32"), np.arange(4, dtype="float32") * 10
    for func in (sch.definition, sch.func):
        np.testing.assert_array_equal(interpret(func, a, x)[0], [1, 12, 23, 34])


def test_what_is_computed_again_in_each_iteration(check):
    """Stages that share a loop with their producers and their readers, who take what is new."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((9,), lambda i: b[i] + b[i + 1], name="C")
    d = te.compute((8,), lambda i: c[i] * c[i + 1], name="D")
    for inlined in ("B", "C"):
        sch = Schedule(te.create_prim_func([a, d], name="chain"))
        sch.compute_at("C", "i_D")
        sch.compute_at("B", "i_D")
        sch.compute_inline(inlined)
        check(sch)


def masked(value, shape=(7, 96)):
    """Where rows have their largest value, of what `value` makes of an element."""
    x, w = te.placeholder(shape, name="x"), te.placeholder(shape[1:], name="w")
    y = te.compute(shape, lambda i, j: value(x[i, j], w[j]), name="y")
    k = te.reduce_axis(shape[1], name="k")
    top = te.compute(shape[:1], lambda i: te.max(y[i, k], axis=k), name="top")
    mask = te.compute(shape, lambda i, j: te.if_then_else(y[i, j] == top[i], 1, 0), name="mask")
    return te.create_prim_func([x, w, mask], name="masked")


def test_what_is_looked_for_is_computed_once():
    """A product and a sum may be rounded once where they meet and twice elsewhere, and functions of
    vectors are not those of elements: what is the largest in one place was found in no other."""
    for value in (lambda x, w: x * w + 1.0, lambda x, w: x - x * w, lambda x, w: te.exp(x)):
        sch = Schedule(masked(value))
        refused(sch.compute_inline, "y", match="may be rounded in another way")
    for value in (lambda x, w: x * w, lambda x, w: x + w, lambda x, w: te.max(x, 0.0) / w):
        sch = Schedule(masked(value))
        sch.compute_inline("y")
        assert sch.get_blocks() == ["top", "mask"]


def test_what_makes_a_stage_round_twice_is_not_inlined_into_its_readers():
    """The stage that is compared comes out the same, and would not with what it reads in it."""
    x, w = te.placeholder((7, 96), name="x"), te.placeholder((96,), name="w")
    part = te.compute((7, 96), lambda i, j: x[i, j] * w[j], name="part")
    k = te.reduce_axis(96, name="k")
    top = te.compute((7,), lambda i: te.max(part[i, k] + 1.0, axis=k), name="top")
    mask = te.compute(
        (7, 96), lambda i, j: te.if_then_else(part[i, j] + 1.0 == top[i], 1, 0), name="mask"
    )
    sch = Schedule(te.create_prim_func([x, w, mask]))
    refused(sch.compute_inline, "part", match="'mask' compares values of 'part'")


def test_what_only_one_place_compares_is_inlined():
    x, w = te.placeholder((7, 96), name="x"), te.placeholder((7, 96), name="w")
    y = te.compute((7, 96), lambda i, j: x[i, j] * 2.5 + 1.0, name="y")
    z = te.compute((7, 96), lambda i, j: te.if_then_else(y[i, j] < w[i, j], 1, 0), name="z")
    sch = Schedule(te.create_prim_func([x, w, z]))
    sch.compute_inline("y")
    assert sch.get_blocks() == ["z"]


SINGLE = """
@prim_func
def single(A: f32[1, 8], C: f32[8]):
    B = alloc(f32[{shape}])
    for u, i in grid({units}, 8):
        with block("B"):
            vu = spatial({units}, u)
            vi = spatial(8, i)
            B[{stored}] = A[0, vi] + f32(vu)
    for i_1 in range(8):
        with block("C"):
            vi = spatial(8, i_1)
            C[vi] = B[{read}] * 2.0
"""


@pytest.mark.parametrize(
    ("shape", "stored"), [("8", "{i}"), ("1, 8", "0, {i}"), ("8, 1", "{i}, 0"), ("1, 8", "vu, {i}")]
)
def test_variables_of_one_value_need_no_place(shape, stored, check):
    """They have it wherever the stage is read."""
    places = {"shape": shape, "stored": stored.format(i="vi")}
    places["read"] = places["stored"].replace("vu", "0")
    sch = Schedule(parse(SINGLE.format(units=1, **places)))
    sch.compute_inline("B")
    assert sch.get_blocks() == ["C"] and "vu" not in str(sch.func)
    check(sch)


def test_variables_of_several_values_need_one():
    sch = Schedule(parse(SINGLE.format(units=2, shape="8", stored="vi", read="vi")))
    refused(sch.compute_inline, "B", match="something else than its own variables")
