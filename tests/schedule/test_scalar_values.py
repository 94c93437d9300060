"""Schedules of programs that take values: what they are in expressions, no step minds."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule, create_schedule
from tensorir import interpret, parse, reference, te, verify

VALUES = {"alpha": 0.5, "beta": 3, "flag": True}
OTHERS = {"alpha": -2.0, "beta": 0, "flag": False}


def program():
    """A sum of scaled terms, scaled again, and a choice: values at every place of an expression."""
    n, m, r = te.var("n"), 8, 6
    alpha, beta, flag = te.var("alpha", "float32"), te.var("beta", "int16"), te.var("flag", "bool")
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    p = te.compute((n, r), lambda i, k: a[i, k] * alpha + beta, name="P")
    k = te.reduce_axis(r, name="k")
    s = te.compute((n, m), lambda i, j: te.sum(p[i, k] * b[k, j] * alpha, axis=k), name="S")

    def last(i, j):
        return te.if_then_else(flag, te.max(s[i, j], alpha), s[i, j] * te.cast(beta, "float32"))

    c = te.compute((n, m), last, name="C")
    return te.create_prim_func([alpha, a, b, flag, c, beta], name="values")


def split_and_bind(sch):
    i, j = sch.get_loops("C")
    outer, inner = sch.split(i, [None, 4])
    sch.reorder(outer, j, inner)
    sch.parallel(outer)
    sch.vectorize(inner)


def inline(sch):
    sch.compute_inline("P")
    sch.vectorize(sch.get_loops("C")[-1])


def factored(sch):
    part = sch.split(sch.get_loops("S")[-1], [None, 4])[1]
    sch.rfactor("S", part)


def copied(sch):
    sch.cache_read("P", "A", "local")
    sch.cache_write("S", 0, "local")
    sch.cache_read("C", "S", "local")


def placed(sch):
    outer = sch.split(sch.get_loops("C")[0], [None, 3])[0]
    sch.compute_at("S", outer)
    sch.compute_at("P", outer)
    sch.unroll(sch.get_loops("S")[-1])


def laid_out(sch):
    sch.transform_layout("S", "P", lambda i, k: (k, i))
    sch.decompose_reduction("S", sch.get_loops("S")[-1])


def on_a_gpu(sch):
    sch.compute_inline("P")
    for block in ("S", "C"):
        outer, inner = sch.split(sch.fuse(*sch.get_loops(block)[:2]), [None, 32])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")


STEPS = [split_and_bind, inline, factored, copied, placed, laid_out, on_a_gpu]


@pytest.mark.parametrize("steps", STEPS)
def test_schedules_of_programs_with_values_keep_their_meaning(steps):
    func = program()
    sch = Schedule(func, debug=True)
    steps(sch)
    verify(sch.func)
    assert len(sch.trace.instructions) > 1
    assert sch.func.scalars == func.scalars
    assert str(parse(str(sch.func))) == str(sch.func)
    assert str(Schedule(func).apply(sch.trace).func) == str(sch.func)
    rng = np.random.default_rng(0)
    kernel = build(sch, "cuda-emulator" if steps is on_a_gpu else "c")
    for rows, values in ((5, VALUES), (1, OTHERS), (0, VALUES)):
        given = [rng.integers(-4, 5, shape).astype("float32") for shape in ((rows, 6), (6, 8))]
        wanted = reference(func, *given, sizes=values)[0]
        found = interpret(sch.func, *given, sizes=values, races=True)[0]
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(kernel(*given, **values), wanted)


def test_a_buffer_or_loop_that_a_step_makes_has_another_name():
    n, alpha = te.var("n"), te.var("i_1", "float32")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] * alpha + te.var("A_local", "float32"), name="C")
    sch = Schedule(te.create_prim_func([a, alpha, te.var("A_local", "float32"), c]))
    sch.split("i", [None, 4])
    sch.cache_read("C", "A", "local")
    verify(sch.func)
    assert interpret(sch.func, np.ones(3, "float32"), 2.0, 0.5)[0].tolist() == [2.5] * 3


def test_schedules_of_te_take_values_wherever_their_arguments_have_them():
    """In the style of TVM: the arguments may be named when the program is made, or never."""
    n, alpha = te.var("n"), te.var("alpha", "float32")
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    p = te.compute((n,), lambda i: alpha * x[i], name="p")
    z = te.compute((n,), lambda i: p[i] + y[i], name="z")
    s = create_schedule(z.op)
    outer, inner = s[z].split(z.op.axis[0], factor=8)
    s[z].vectorize(inner)
    s[p].compute_at(s[z], outer)
    copy = s.cache_read(x, "local", [p])
    s[copy].compute_at(s[z], outer)
    assert "x" in repr(s[x]), "an input is a stage, whatever else is an argument"
    assert [a.name for a in s.func.arguments] == ["x", "y", "alpha", "z"]
    data = np.arange(11, dtype="float32"), np.ones(11, "float32")
    wanted = data[0] * 1.5 + 1
    np.testing.assert_array_equal(build(s)(*data, 1.5), wanted)
    moved = te.lower(s, [alpha, x, y, z])
    np.testing.assert_array_equal(build(moved)(1.5, *data), wanted)


def test_sizes_that_no_array_tells_are_arguments_of_a_te_schedule():
    a, times = te.placeholder((4,), name="A"), te.var("times")
    c = te.compute((4 * times,), lambda i: a[i % 4], name="C")
    e = te.compute((4,), lambda i: a[i] * times, name="E")
    assert [x.name for x in create_schedule(e.op).func.arguments] == ["A", "times", "E"]
    with_shape = create_schedule([c.op, e.op]).func
    assert {x.name for x in with_shape.arguments} == {"A", "times", "C", "E"}
