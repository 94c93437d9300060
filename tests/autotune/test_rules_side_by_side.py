"""Chains whose rows are neighbours in memory have lanes of rows, however they are written."""

from __future__ import annotations

import pytest

from autotune.rules.generate import sketches
from autotune.rules.side_by_side import SideBySidePlan
from benchmarks.general.rewritings import forms_of
from tensorir import Cpu, PrimFunc, Target, ops, te, verify
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


def unit_columns(rows: int = 3, columns: int = 40) -> PrimFunc:
    """Columns of a matrix by their length, two axes of terms."""
    x = rows_of(rows, 5, columns)
    k, n = te.reduce_axis((0, rows), name="k"), te.reduce_axis((0, 5), name="n")
    length = te.compute(
        (columns,), lambda j: te.sum(x[k, n, j] * x[k, n, j], axis=[k, n]), name="l"
    )
    return made(x, te.compute(x.shape, lambda a, b, j: x[a, b, j] / te.sqrt(length[j]), name="out"))


PROGRAMS = {f.__name__: f() for f in (softmax, few_classes, channel_norm, unit_columns)}
FORMS = [
    pytest.param(name, form, id=f"{name}, {form.name}")
    for name, func in PROGRAMS.items()
    for form in forms_of(func, KINDS)
]


def plans_of(func: PrimFunc, cpu: Cpu = SMALL) -> list[SideBySidePlan]:
    plans = next(sketches(func, cpu, "reassociated")).plans
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


def test_threads_have_pieces_of_several_vectors_and_do_not_wait_for_lines():
    """A sum waits for the term before it, so that few columns need other plans; and lines that two
    threads write take longer than short rows."""

    def widest(rows: int, columns: int, threads: int) -> int | None:
        cpu = Cpu(Target(vector_bits=128, threads=threads, features=("fma",), l2=1 << 20))
        found = plans_of(unit_columns(rows, columns), cpu)
        return max(found[0].options["rows"][0]) if found else None

    assert [widest(2000, n, 1) for n in (8, 12, 16, 32)] == [None, None, 16, 32]
    assert [widest(2000, n, 2) for n in (32, 64, 128)] == [None, None, None]
    assert [widest(2, n, 2) for n in (16, 32, 64)] == [None, 16, 32], "threads are not started"
    assert widest(2, 1 << 15, 2) == widest(2, 1 << 15, 1) == 32, "long rows"
