"""Chains whose rows are neighbours in memory have lanes of rows, however they are written."""

from __future__ import annotations

import pytest

from autotune.rules.generate import sketches
from autotune.rules.side_by_side import SideBySidePlan
from benchmarks.general.rewritings import forms_of
from tensorir import PrimFunc, ops, te, verify
from tests.autotune.test_rules_chains import SMALL, compare, made, rows_of

KINDS = ("reordered", "permuted", "split", "fused", "unit", "scaled", "type", "embedded",
         "symbolic")  # fmt: skip


def softmax() -> PrimFunc:
    x = rows_of(4, 9, 3, 8)
    return made(x, ops.softmax(x, axis=1, name="out"))


def channel_norm() -> PrimFunc:
    x, scale = rows_of(2, 7, 3, 9), rows_of(7, name="scale")
    k, n = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 7), name="n")
    mean = te.compute((2, 3, 9), lambda b, i, j: te.sum(x[b, k, i, j] / 7, axis=k), name="mean")
    off = te.compute(x.shape, lambda b, c, i, j: x[b, c, i, j] - mean[b, i, j], name="off")
    var = te.compute(
        (2, 3, 9), lambda b, i, j: te.sum(off[b, n, i, j] * off[b, n, i, j] / 7, axis=n), name="var"
    )
    return made(x, scale, te.compute(
        x.shape, lambda b, c, i, j: off[b, c, i, j] * te.rsqrt(var[b, i, j] + 1e-5) * scale[c],
        name="out",
    ))  # fmt: skip


def few_classes() -> PrimFunc:
    x = rows_of(3, 5, 20, 7)
    return made(x, ops.softmax(x, axis=-1, name="out"))


def unit_columns() -> PrimFunc:
    """Columns of a matrix by their length, two axes of terms."""
    x = rows_of(3, 5, 40)
    k, n = te.reduce_axis((0, 3), name="k"), te.reduce_axis((0, 5), name="n")
    length = te.compute((40,), lambda j: te.sum(x[k, n, j] * x[k, n, j], axis=[k, n]), name="l")
    return made(x, te.compute(x.shape, lambda a, b, j: x[a, b, j] / te.sqrt(length[j]), name="out"))


PROGRAMS = {f.__name__: f() for f in (softmax, few_classes, channel_norm, unit_columns)}
FORMS = [
    pytest.param(name, form, id=f"{name}, {form.name}")
    for name, func in PROGRAMS.items()
    for form in forms_of(func, KINDS)
]


def plans_of(func: PrimFunc) -> list[SideBySidePlan]:
    plans = next(sketches(func, SMALL, "reassociated")).plans
    return [plan for plan in plans if isinstance(plan, SideBySidePlan)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_stages_are_in_one_nest_of_lanes_that_are_rows(name):
    func = PROGRAMS[name]
    (plan,) = plans_of(func)
    sch = next(sketches(func, SMALL, "reassociated")).build(plan.default())
    verify(sch.func)
    assert len({sch.get_loops(block)[0] for block in plan.stages}) == 1
    for block in plan.stages:
        assert str(sch.state.loop(sch.get_loops(block)[-1]).kind) == "vectorized"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_values_are_right_in_all_forms(name, form):
    sketch = next(sketches(form.func, SMALL, "reassociated"))
    compare(form, PROGRAMS[name], sketch.build(sketch.values()))


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 7, 8, 40])
def test_rows_are_turned_where_elements_are_kept_and_short(columns):
    x = rows_of(64, columns)
    plans = plans_of(made(x, ops.softmax(x, name="out")))
    assert [plan.turned for plan in plans] == ([SMALL.lanes()] if columns < 8 else [])
    k = te.reduce_axis((0, columns), name="k")
    length = te.compute((64,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="length")
    assert not plans_of(made(x, te.compute(x.shape, lambda i, j: x[i, j] / length[i], name="out")))
