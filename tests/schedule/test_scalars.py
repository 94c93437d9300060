"""Schedules of programs that take numbers: the same values as the definition for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule, create_schedule
from schedule.errors import ScheduleError
from tensorir import Target, TensorIRError, interpret, lower, parse, reference, te, verify


def parts():
    """Sums of `factor` neighbours, and these times a number that only a value uses."""
    n, factor, scale = te.var("n"), te.var("factor"), te.var("scale")
    a = te.placeholder((n,), "int32", name="A")
    k = te.reduce_axis(factor, name="k")
    s = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="S")
    c = te.compute((n // factor,), lambda i: s[i] * scale.astype("int32") + 1, name="C")
    return te.create_prim_func([a, factor, scale, c], name="parts")


def rows():
    """Rows of a matrix moved by a number of either sign, so many times over as another says."""
    n, m, shift, times = (te.var(name) for name in ("n", "m", "shift", "times"))
    a = te.placeholder((n, m), "int32", name="A")

    def moved(i, j):
        here = te.all(i + shift >= 0, i + shift < n)
        return te.if_then_else(here, a[i + shift, j], -1)

    b = te.compute((n, m), moved, name="B")
    c = te.compute((n * times, m), lambda i, j: b[i // times, j] * 2, name="C")
    return te.create_prim_func([shift, times, a, c], name="rows")


def split(sch):
    for loop in sch.get_loops("C"):
        sch.split(loop, [None, 4])


def fuse(sch):
    sch.fuse(*sch.get_loops("C")) if len(sch.get_loops("C")) > 1 else None
    sch.parallel(sch.split(sch.get_loops("C")[0], [None, 3])[0])


def vectorize(sch):
    sch.vectorize(sch.split(sch.get_loops("C")[-1], [None, 4])[1])


def unroll(sch):
    sch.unroll(sch.split(sch.get_loops("C")[0], [None, 2])[1])


def at(sch):
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    first = sch.get_blocks()[0]
    sch.compute_at(first, outer)


def inline_or_factor(sch):
    first = sch.get_blocks()[0]
    if str(first) == "B":
        sch.compute_inline(first)
        return
    lanes = sch.split(sch.get_loops(first)[-1], [None, 4])[1]
    sch.rfactor(first, lanes)


def cached(sch):
    first = sch.get_blocks()[0]
    sch.cache_read(first, "A", "global")
    sch.cache_write("C", 0, "local")


REQUESTS = [split, fuse, vectorize, unroll, at, inline_or_factor, cached]

CASES = {
    parts: [
        {"factor": f, "scale": s, "n": n}
        for f, s, n in ((1, 2, 13), (3, -5, 13), (4, 0, 16), (13, 1, 13), (14, 1, 13), (5, 1, 0))
    ],
    rows: [
        {"shift": s, "times": t, "n": n, "m": m}
        for s, t, n, m in ((0, 1, 5, 7), (-2, 3, 5, 7), (3, 2, 5, 7), (99, 1, 1, 4), (1, 2, 0, 3))
    ],
}


def inputs(func, sizes):
    rng = np.random.default_rng(0)
    shape = [sizes[v.name] for v in func.params[0].shape]
    return [rng.integers(-9, 10, shape).astype("int32")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("request_", REQUESTS)
def test_schedules_of_programs_with_numbers_keep_their_meaning(make, request_):
    func = make()
    sch = Schedule(func)
    request_(sch)
    verify(sch.func)
    assert len(sch.trace.instructions) > 0
    assert sch.func.scalars == func.scalars
    assert str(parse(str(sch.func))) == str(sch.func)
    assert str(Schedule(func).apply(sch.trace).func) == str(sch.func)
    for sizes in CASES[make]:
        given = inputs(func, sizes)
        wanted = reference(func, *given, sizes=sizes)[0]
        found = interpret(sch.func, *given, sizes=sizes, races=True)[0]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("make", CASES)
def test_scheduled_programs_with_numbers_run(make):
    func = make()
    for request_ in (vectorize, at):
        sch = Schedule(func)
        request_(sch)
        kernel = build(sch)
        for sizes in CASES[make]:
            given = inputs(func, sizes)
            wanted = reference(func, *given, sizes=sizes)[0]
            numbers = {scalar.name: sizes[scalar.name] for scalar in func.scalars}
            np.testing.assert_array_equal(kernel(*given, **numbers), wanted)


def test_steps_are_validated_on_numbers_for_which_something_runs():
    for make in CASES:
        sch = Schedule(make(), debug=True)
        at(sch)
        cached(sch)


def test_a_loop_of_a_number_of_iterations_may_not_be_vectorized():
    m = te.var("m")
    c = te.compute((m,), lambda i: i, name="C")
    sch = Schedule(te.create_prim_func([m, c]))
    with pytest.raises(ScheduleError, match="extent"):
        sch.vectorize("i")


def test_a_number_whose_sign_is_not_known_proves_nothing():
    """A guard that holds for numbers of one sign only does not do."""
    text = """
        @prim_func
        def f(A: f32[n], shift: i64{least}, C: f32[n]):
            for i in range(n):
                with block("C"):
                    vi = spatial(n, i)
                    C[vi] = select(vi + shift < n, A[vi + shift], 0.0)
    """
    Schedule(parse(text.format(least=" >= 0")))
    with pytest.raises(TensorIRError, match="A"):
        Schedule(parse(text.format(least="")))
    with pytest.raises(TensorIRError, match="A"):
        Schedule(parse(text.format(least=" >= -1")))


def test_layouts_hold_for_buffers_that_have_no_elements():
    """One that is rounded up has elements then, which are filled like any padding."""
    factor = te.var("factor")
    a = te.placeholder((1,), "int32", name="A")
    s = te.compute((1 // factor,), lambda i: a[i] * 2, name="S")
    c = te.compute((1 // factor,), lambda i: s[i] + 1, name="C")
    func = te.create_prim_func([a, factor, c])
    sch = Schedule(func)
    sch.transform_layout("C", "S", lambda i: (i // 4, i % 4), pad_value=1)
    sch.cache_read("C", "S", "local")
    for number in (1, 2):
        wanted = reference(func, np.ones(1, "int32"), number)[0]
        found = interpret(sch.func, np.ones(1, "int32"), number)[0]
        np.testing.assert_array_equal(found, wanted)


def test_a_parallel_loop_of_one_iteration_for_any_number_is_no_race():
    factor = te.var("factor")
    a = te.placeholder((1,), "int32", name="A")
    k = te.reduce_axis(factor, name="k")
    c = te.compute((1 // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, factor, c]))
    sch.parallel(sch.fuse(*sch.get_loops("C")))
    verify(sch.func)


def test_te_schedules_take_numbers_among_their_arguments():
    n, factor, scale = te.var("n"), te.var("factor"), te.var("scale")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    s = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="S")
    c = te.compute((n // factor,), lambda i: s[i] * scale, name="C")
    order = [factor, a, scale, c]
    made = create_schedule(c.op, order, "parts")
    outer, inner = made[c].split(c.op.axis[0], factor=4)
    made[c].parallel(outer)
    made[c].vectorize(inner)
    made[s].compute_at(made[c], outer)
    assert [x.name for x in te.lower(made).arguments] == ["factor", "A", "scale", "C"]
    data = np.arange(13, dtype="float32")
    wanted = data[:12].reshape(4, 3).sum(axis=1) * -2
    np.testing.assert_allclose(build(made)(3, data, -2), wanted)
    other = te.lower(made, [a, c, scale, factor])
    assert [x.name for x in other.arguments] == ["A", "C", "scale", "factor"]
    np.testing.assert_allclose(interpret(other, data, -2, 3)[0], wanted)
    with pytest.raises(TensorIRError, match=r"put te.var\('scale'\) itself among the arguments"):
        te.lower(made, [a, factor, c])


def test_a_loop_is_cut_once_where_a_number_of_any_sign_decides():
    """The rest of a loop was cut again and again, since it was not seen that a condition that ends
    where the cut is does not hold after it."""
    sch = Schedule(rows())
    vectorize(sch)
    lowered = str(lower(sch.func, Target.parse("c -vector_bits=256")))
    assert sum(line.strip().startswith("B[") for line in lowered.splitlines()) == 2
