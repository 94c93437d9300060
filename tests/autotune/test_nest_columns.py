"""Times of general nests as columns: those of each decision alone, of the loops that are built."""

from __future__ import annotations

import random
from math import log2

import numpy as np
import pytest

from autotune.cost_model.roofline import CLOCK, draft
from autotune.features.features import block_features, extract
from autotune.features.footprint import homes
from autotune.features.nest import nests
from autotune.rules import make_space
from autotune.rules.nests.columns import Formula
from autotune.rules.nests.places import SLIDE
from schedule import ScheduleError
from tensorir import Cpu, Target, ops, te

CPU = Cpu(Target(vector_bits=256, threads=3, features=("fma",), l1d=2 << 10, l2=16 << 10))


def product(kind="float32"):
    a, b = te.placeholder((64, 32), kind, name="a"), te.placeholder((32, 128), kind, name="b")
    return te.create_prim_func([a, b, ops.matmul(a, b, name="out")])


def signal():
    """Of groups, whose operand is read at quotients."""
    x, w = te.placeholder((1, 16, 64), name="x"), te.placeholder((16, 4, 4), name="w")
    return te.create_prim_func([x, w, ops.conv1d(x, w, groups=4, stride=4, name="out")])


def turned():
    x = te.placeholder((32, 8, 64), name="x")
    out = te.compute((64, 32, 8), lambda i, j, k: te.exp(x[j, k, i] * 2.0), name="out")
    return te.create_prim_func([x, out])


def rows():
    x, k = te.placeholder((64, 256), name="x"), te.reduce_axis(256, "k")
    out = te.compute((64,), lambda i: te.max(x[i, k], axis=k), name="out")
    return te.create_prim_func([x, out])


def chain():
    """Stages of which each is read by the next one."""
    a, b = te.placeholder((64, 32), name="a"), te.placeholder((32, 64), name="b")
    c = te.placeholder((64, 16), name="c")
    hidden = ops.matmul(a, b, activation="relu", name="hidden")
    return te.create_prim_func([a, b, c, ops.matmul(hidden, c, name="out")])


def blur():
    """A stage whose elements several places of another one share."""
    u, d = te.placeholder((36, 64), name="u"), te.reduce_axis(4, "d")
    some = te.compute((36, 64), lambda i, j: u[i, j] * 2.0, name="some")
    out = te.compute((32, 64), lambda i, j: te.sum(some[i + d, j], axis=d), name="out")
    return te.create_prim_func([u, out])


def scalar():
    x, k = te.placeholder((64,), name="x"), te.reduce_axis(64, "k")
    return te.create_prim_func([x, te.compute((), lambda: te.sum(x[k], axis=k), name="out")])


ALONE = (product, lambda: product("int8"), signal, turned, rows, scalar)
SEVERAL = (chain, blur)


def plan_of(func):
    """The plan of all blocks of a program, and its sketch."""
    sketch = make_space(func, CPU).sketches["nests"]
    (plan,) = sketch.plans
    return plan, sketch


def drawn(plan, sketch, count):
    """Random values whose tiles divide axes of powers of two, with their schedules."""
    rng, found = random.Random(0), []
    while len(found) < count:
        values = sketch.decisions(sketch.sample(rng).values)
        for name, value in values.items():
            if ".tile[" in name:
                values[name] = tuple(2 ** int(log2(size)) for size in value)
        try:
            found.append((values, sketch.build(values)))
        except ScheduleError:  # as where code reads back what is stored past the caches
            continue
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", (*ALONE, *SEVERAL))
def test_times_of_many_decisions_are_those_of_each_alone(make, monkeypatch):
    """Whichever of them are together, and without a schedule."""
    plan, sketch = plan_of(make())
    rng = random.Random(1)
    values = [sketch.decisions(sketch.sample(rng).values) for _ in range(60)]
    monkeypatch.setattr(type(plan), "apply", lambda *_: pytest.fail("a schedule was made"))
    together = plan.columns(values)
    assert np.isfinite(together).all() and (together > 0).all() and len(set(together)) > 4
    np.testing.assert_array_equal(together, [plan.columns([one])[0] for one in values])
    np.testing.assert_array_equal(together[::-1], plan.columns(values[::-1]))


@pytest.mark.parametrize("make", ALONE)
def test_the_time_of_a_stage_is_the_draft_of_what_is_built(make):
    """Of one stage, where tiles divide its axes. The instructions that copy sums from registers are
    few, and not counted."""
    plan, sketch = plan_of(make())
    made = drawn(plan, sketch, 60)
    rows = np.stack([extract(built.func, CPU.target) for _, built in made])
    times, wanted = plan.columns([values for values, _ in made]), draft(rows) * CLOCK
    copied = np.array([values.get("out.sums") == "registers" for values, _ in made])
    np.testing.assert_allclose(times[~copied], wanted[~copied], rtol=1e-4)
    np.testing.assert_allclose(times[copied], wanted[copied], rtol=0.1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", SEVERAL)
def test_columns_of_stages_are_the_features_of_their_blocks(make):
    """Of those at the root, and of those in a loop of their user, where tiles divide axes; threads
    are started once for all that is in a loop."""
    plan, sketch = plan_of(make())
    formula, compared = Formula(plan.base, plan.parts, plan.refusals, CPU), set()
    for values, built in drawn(plan, sketch, 80):
        decisions = plan.decisions(values)
        found = nests(built.func)
        home = homes(built.func, found)
        slides = any(d.slides for d in decisions.values())
        if slides or any(nest.guard for nest in found):  # by what is needed in a loop, at last
            continue
        known = {nest.name: block_features(nest, home, CPU.target) for nest in found}
        for name, columns in formula.tables([decisions]):
            place = decisions[name].place
            compared.add(place)
            for what, column in columns.items():
                if what in known[name] and not (what == "tasks" and " " in place):
                    assert column[0] == pytest.approx(known[name][what], abs=1e-4), (name, what)
    assert {"root"} < compared


def test_what_slides_computes_its_elements_once():
    """So that it takes less than what computes all that is needed each time."""
    plan, sketch = plan_of(blur())
    rng, ratios = random.Random(0), []
    while len(ratios) < 20:
        values = sketch.decisions(sketch.sample(rng).values)
        if not values["some.where"].startswith(SLIDE):
            continue
        instead = {**values, "some.where": values["some.where"].replace(SLIDE, "at ")}
        sliding, again = (
            columns["waste"][0]
            for one in (values, instead)
            for name, columns in plan.formula.tables([plan.decisions(one)])
            if name == "some"
        )
        ratios.append(again - sliding)
    assert min(ratios) >= -0.1 and max(ratios) > 1


def test_a_plan_of_what_others_read_has_a_formula():
    """Of a group in a program whose other groups have plans of their own."""
    space = make_space(chain(), CPU)
    rng = random.Random(0)
    mixed = [sketch for name, sketch in space.sketches.items() if ":nest" in name]
    for sketch in mixed:
        cycles = sketch.cycles([sketch.sample(rng).values for _ in range(8)])
        assert cycles is not None and np.isfinite(cycles).all()
    assert mixed
