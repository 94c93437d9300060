"""Panels that memory has are asked for before they are read; those that a cache holds are not."""

from __future__ import annotations

import dataclasses
import math

import pytest

from autotune import default_schedule
from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.estimate.facts import SYMBOLIC
from autotune.plans import plans
from schedule import Schedule
from schedule.library import NestPlan, find_contraction
from tensorir import For, Target, dtype, te, walk

TARGET = Target(
    vector_bits=512, threads=1, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 22
)


def few_rows(kind="float32", rows=16, turned=False, batch=False, renamed=False):
    """A product of few rows with 2048 x 2048 constants, and the name of these."""
    a, b = ("Z", "A") if renamed else ("A", "B")
    more = (2,) if batch else ()
    x = te.placeholder((*more, rows, 2048), kind, name=a)
    w = te.placeholder((*more, 2048, 2048), kind, name=b)
    k = te.reduce_axis(2048, name="k")
    sums = "float32" if kind == "float16" else kind

    def value(*at):
        *g, i, j = at
        place = (j, k) if turned else (k, j)
        return te.sum(te.cast(x[(*g, i, k)], sums) * te.cast(w[(*g, *place)], sums), axis=k)

    out = te.compute((*more, rows, 2048), value, name="out")
    return te.create_prim_func([w, x, out] if renamed else [x, w, out]), b


CHANGES = [
    {}, {"turned": True}, {"batch": True}, {"renamed": True},
    {"kind": "float64"}, {"kind": "int32"}, {"kind": "float16"}, {"rows": 12},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_panels_are_asked_for_where_memory_has_them(change):
    """Whatever the program is like: not where the second cache holds the constants."""
    func, weights = few_rows(**change)
    size = next(p for p in func.params if p.name == weights)
    held = math.prod(size.const_shape) * dtype.itemsize(size.dtype)

    def asks(times):
        target = dataclasses.replace(TARGET, l2=int(held * times), l3=8 * held)
        sch = default_schedule(func, target, [weights])
        loops = [s for s in walk(sch.func.body) if isinstance(s, For)]
        return [row for s in loops for row in s.annotations.get("prefetch", ())]

    ((_, buffer, _),) = asks(0.4)
    assert buffer.startswith(weights)
    assert not asks(1.5)


def test_a_plan_that_asks_ahead_moves_as_much():
    """Requests take a load each, and the time of what they ask for alone is shorter."""
    c, cpu = find_contraction(Schedule(few_rows()[0]), "out"), Cpu(TARGET)
    (first, *_) = [p for _, p in plans(c, cpu, ("B",)) if p.ahead]
    plain = dataclasses.replace(first, ahead=())
    estimate = Estimate(c, cpu, ("B",))
    assert estimate.cycles([first])[0] < 0.9 * estimate.cycles([plain])[0]
    assert estimate.arithmetic([first])[0] > estimate.arithmetic([plain])[0]
    large = Estimate(c, Cpu(dataclasses.replace(TARGET, l2=1 << 30, l3=1 << 31)), ("B",))
    assert large.cycles([first])[0] >= large.cycles([plain])[0]


@pytest.mark.parametrize("rows", [4, 5, 8, 9])
def test_the_last_tile_of_a_symbolic_axis_counts_as_a_whole(rows):
    """Whatever divides the extent that is assumed."""
    sizes = te.var("m"), rows
    symbolic, whole = (find_contraction(Schedule(few_rows(rows=n)[0]), "out") for n in sizes)
    plan, cpu = NestPlan(1, 16, (rows, 32), (rows, 2048), (2,), (0, 1)), Cpu(TARGET)
    (one,), (all_,) = (Estimate(c, cpu).arithmetic([plan]) for c in (whole, symbolic))
    assert all_ == pytest.approx(one * (SYMBOLIC / rows + 1))
