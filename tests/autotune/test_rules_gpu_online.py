"""Attention on GPUs: one kernel by default, and in the middle of other stages."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest

from autotune import default_schedule
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles, launch
from autotune.rules import choose, default_sketch
from autotune.rules.alternatives import first_start, reductions, with_algorithm
from autotune.rules.generate import sketches_of
from autotune.rules.gpu.move import bound_works
from autotune.rules.gpu.online import (
    LIKELY,
    ROWS,
    THREADS,
    OnlinePlan,
    blocks_of,
    online_stages,
)
from autotune.rules.gpu.product import ProductPlan, contraction_of, least_cycles
from autotune.rules.gpu.tiles import tile_plans
from autotune.rules.group import find_groups
from autotune.rules.registry import RULES
from backends import build
from benchmarks.general.form import expected, given, numbers, restored
from benchmarks.general.rewritings import forms_of
from schedule import Schedule, library
from tensorir import device_of, ops, reference, te
from tensorir.targets.target import Target

TARGET = Target.parse("cuda -arch=sm_90a")
EMULATOR = "cuda-emulator -arch=sm_90a"


def attention(heads, queries, keys, features):
    shapes = ((heads, queries, features), *[(heads, keys, features)] * 2)
    given = [te.placeholder((1, *s), name=n) for s, n in zip(shapes, "qkv")]
    return te.create_prim_func([*given, ops.attention(*given)])


def test_scores_are_in_no_memory():
    """Each tile of 128 rows reads keys and values once, whatever divides."""
    heads, queries, keys, features = 64, 500, 700, 64
    func = attention(heads, queries, keys, features)
    (work,) = works_of(default_schedule(func, TARGET).func, device_of(TARGET))
    sector, tiles = 32 // 4, -(-queries // 128)
    moved = heads * features * (2 * queries + 2 * tiles * keys)
    assert work.sectors == pytest.approx(moved / sector, rel=0.02)


def heads_inside(batch, queries, keys, heads, features, packed=(False, False)):
    """Attention of arrays whose heads are behind their rows, of scores that one block makes; heads
    of what is read, and of the result, may be one dimension with their features."""

    def shape(rows, packed):
        return (batch, rows, heads * features) if packed else (batch, rows, heads, features)

    def at(x, b, i, h, c):
        return x[b, i, h * features + c] if packed[0] else x[b, i, h, c]

    def mixed(b, i, h, c):
        return te.sum(weights[b, h, i, z] * at(v, b, z, h, c), axis=z)

    rows = {"q": queries, "k": keys, "v": keys}
    q, k, v = (te.placeholder(shape(n, packed[0]), name=name) for name, n in rows.items())
    a, z = te.reduce_axis(features, name="a"), te.reduce_axis(keys, name="z")
    scores = te.compute(
        (batch, heads, queries, keys),
        lambda b, h, i, j: te.sum(at(q, b, i, h, a) * at(k, b, j, h, a), axis=a),
    )
    weights = ops.softmax(scores)

    def element(b, i, *c):
        return mixed(b, i, *((c[0] // features, c[0] % features) if packed[1] else c))

    return te.create_prim_func([q, k, v, te.compute(shape(queries, packed[1]), element)])


@pytest.mark.parametrize("packed", [*product((False, True), repeat=2)])
def test_heads_may_be_anywhere(packed, cache):
    """Scores that a stage of the kernel alone reads were stored as that reads them, by a plan of
    their own that cannot tell its time; rows of several heads lay in the same banks; and a result
    of several heads side by side was no sum weighted by a softmax."""
    func = heads_inside(2, 512, 512, 16, 64, packed)
    sketch = choose(func, device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["online"]
    (work,) = works_of(sketch.build(sketch.values()).func, device_of(TARGET))
    assert work.wavefronts <= 1.01 * work.free
    func = heads_inside(1, 19, 131, 3, 5, packed)
    sch = default_schedule(func, EMULATOR)
    arrays = numbers(func)
    made = build(sch, f"{EMULATOR} -check=races,bounds,uninitialised", cache=cache)(*arrays)
    np.testing.assert_allclose(made, reference(func, *arrays)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("heads", "tried"), [(2048, 1), (1, 1), (36, len(LIKELY))])
def test_smaller_tiles_are_tried_where_multiprocessors_stand_idle(heads, tried, monkeypatch):
    """Tiles of 2048 heads are many blocks, whose instructions bind; those of one leave most
    multiprocessors without any, whatever their size, and those of 36 some with one more."""
    made, make = [], OnlinePlan._made

    def counted(self, point):
        made.append(point)
        return make(self, point)

    monkeypatch.setattr(OnlinePlan, "_made", counted)
    default_schedule(attention(heads, 512, 256, 64), TARGET)
    assert len(made) == tried


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(8, 512, 64), (64, 128, 40), (24, 700, 96)])
def test_likely_tiles_are_about_as_fast_as_any(sizes):
    heads, rows, features = sizes
    start = first_start(attention(heads, rows, rows, features), "reassociated")
    (block,) = [b for b in reductions(start.schedule) if with_algorithm(start, b, "online_32")]
    sch = with_algorithm(start, block, "online_32").schedule
    (plan,) = online_stages(sch, device_of(TARGET))
    every = [plan._made({"rows": n, "threads": t}) for n in ROWS for t in THREADS]
    least = min(plan._time(made) for made in every if made is not None)
    assert plan.estimate() <= 1.1 * least


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sizes", [(1, 512, 64), (9, 130, 16), (48, 197, 64), (4, 2048, 128)])
def test_points_that_are_not_tried_would_not_be_chosen(sizes):
    """Blocks by the formula are those of the kernel, and one that is left out for a later one takes
    no less time than what is tried."""
    heads, rows, features = sizes
    start = first_start(attention(heads, rows, rows, features), "reassociated")
    (block,) = [b for b in reductions(start.schedule) if with_algorithm(start, b, "online_32")]
    sch = with_algorithm(start, block, "online_32").schedule
    (plan,) = online_stages(sch, device_of(TARGET))
    extents = library.gpu.online_rows(sch.copy(), plan.group.block).extents
    tried, left = list[float](), list[float]()
    for point in LIKELY:
        values = dict(zip(("rows", "threads"), point))
        made = plan._made(values)
        if made is None:
            continue
        (work,) = bound_works(made.func, plan.gpu, plan.base.func)
        assert work.blocks == blocks_of(extents, point)
        (tried if values in plan.likely else left).append(plan._time(made))
    assert tried and min(tried) <= min(left, default=inf)


def test_what_kernels_take_to_begin_counts_whatever_makes_them():
    """Two products and two chains were asked for the launches of the chains alone."""
    sch = default_schedule(attention(24, 512, 512, 80), TARGET)
    assert len(works_of(sch.func, device_of(TARGET))) == 1


@pytest.mark.parametrize(
    ("sizes", "asked"), [((64, 1024, 1024, 64), False), ((2, 16, 2048, 128), True)]
)
def test_the_definition_is_planned_only_where_it_may_be_the_fastest(sizes, asked, monkeypatch):
    """Its scores go through memory, which takes longer than all of the one kernel, where that has
    work for all multiprocessors."""
    func, planned, find = attention(*sizes), [], ProductPlan.in_best_form

    def counted(self):
        planned.append(self)
        return find(self)

    monkeypatch.setattr(ProductPlan, "in_best_form", counted)
    made = default_schedule(func, TARGET)
    assert bool(planned) == asked
    monkeypatch.setitem(RULES, "gpu", replace(RULES["gpu"], least=None))
    del planned[:]
    assert default_schedule(func, TARGET).trace == made.trace
    assert planned, "the same was chosen among all"


FORMS = ("split last", "split first, inputs too", "unit reduce", "unit first")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMS)
def test_sums_in_parts_or_with_units_have_one_kernel_too(name, cache):
    """Weights are found by what their sums are over, however many variables these have. Of so many
    heads the first tile is the best."""
    func, small = attention(2048, 512, 512, 64), attention(2, 72, 72, 8)
    device = device_of(TARGET)
    works = works_of(default_schedule(func, TARGET).func, device)
    assert len(works) == 1
    (form,) = (f for f in forms_of(func, (name.split()[0],)) if f.name == name)
    found = works_of(default_schedule(form.func, TARGET).func, device)
    assert cycles(found, device) <= 1.05 * cycles(works, device)
    (form,) = (f for f in forms_of(small, (name.split()[0],)) if f.name == name)
    arrays = numbers(small)
    sch = default_schedule(form.func, EMULATOR)
    kernel = build(sch, f"{EMULATOR} -check=races,uninitialised", cache=cache)
    (made,) = restored(form, small, [kernel(*given(form, small, arrays))])
    np.testing.assert_allclose(made, expected(form, small, arrays)[0], 1e-4, 1e-5)


def test_stages_may_have_any_names():
    """The algorithm for one sum computes what another one made, which is gone then."""
    x = [te.placeholder((1, 2, 128, 32), name=name) for name in "qkv"]
    func = te.create_prim_func([*x, ops.attention(*x)], name="attention")

    def planned(func):
        chosen = choose(func, device_of(TARGET), None, ())
        return [plan.name for plan in chosen.sketch.plans], chosen.start.name.count("online")

    forms = list(forms_of(func, ["renamed"]))[:2]
    assert [planned(form.func) for form in forms] == [planned(func)] * len(forms)


def test_between_other_stages():
    """Projections before and after, a scale, and a sum with the input."""
    x = te.placeholder((70, 8), name="x")
    weights = [te.placeholder((8, 8), name=f"w{n}") for n in range(4)]
    rows = [ops.matmul(x, w, name=f"p{n}") for n, w in enumerate(weights[:3])]
    heads = [
        te.compute((1, 2, 70, 4), lambda b, h, i, d, t=t: t[i, h * 4 + d] * 0.5, name=f"{n}_heads")
        for t, n in zip(rows, "qkv")
    ]
    mixed = ops.attention(*heads)
    flat = te.compute((70, 8), lambda i, c: mixed[0, c // 4, i, c % 4], name="flat")
    out = ops.add(ops.matmul(flat, weights[3], name="last"), x, name="out")
    func = te.create_prim_func([x, *weights, out])
    device, start = device_of(TARGET), first_start(func, "reassociated")
    (block,) = [b for b in reductions(start.schedule) if with_algorithm(start, b, "online_64")]
    used = with_algorithm(start, block, "online_64")
    sketch = default_sketch(sketches_of(used, device, "reassociated"), ())
    assert "online" in [plan.name for plan in sketch.plans]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(p.const_shape).astype(p.dtype) for p in func.inputs]
    kernel = build(sketch.build(sketch.values()), EMULATOR)
    np.testing.assert_allclose(kernel(*inputs), reference(func, *inputs)[0], 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 4096), (1, 4096, 64), (65, 33, 35)])
def test_no_tile_takes_less_than_a_definition_surely_does(m, n, k, dtype):
    """So a definition that needs more than another algorithm takes is not planned."""
    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
    sch, device = Schedule(te.create_prim_func([a, b, ops.matmul(a, b)])), device_of(TARGET)
    (group,) = find_groups(sch)
    least = least_cycles(sch, [group], device)
    found = tile_plans(contraction_of(sch, group), device)
    start = launch(device)
    assert 0 < least <= start + min(counts.cycles for counts in found)
    if m == n == k:  # what binds, beside shared memory, so that it says something
        assert least > 0.55 * (start + found[0].cycles)


@pytest.mark.parametrize("sizes", [(64, 1024, 1024, 64), (2, 16, 2048, 128), (3, 17, 33, 5)])
def test_tiles_are_looked_for_where_operations_alone_do_not_tell(sizes):
    """What is known by then is no more than the tiles take, and enough where that is."""
    sch, device = first_start(attention(*sizes), "reassociated").schedule.copy(), device_of(TARGET)
    groups = find_groups(sch)
    whole = least_cycles(sch, groups, device)
    assert least_cycles(sch, groups, device, whole) == whole
    for share in (0.0, 0.5, 0.9, 0.999):
        assert share * whole < least_cycles(sch, groups, device, share * whole) <= whole
