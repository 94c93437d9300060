"""Candidates whose cycles a formula tells: as columns, equal to those of plans, nothing built."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from math import ceil

import numpy as np
import pytest

from autotune.estimate.estimate import Estimate
from autotune.estimate.told import FEW
from autotune.plans import plans
from autotune.rules import make_space
from autotune.rules.contraction import nest_of
from autotune.rules.plan import Plan
from autotune.rules.scan import ScanPlan
from autotune.search import evolutionary
from autotune.search.pool import BUILT, FIRST, Pool, steps
from autotune.space import Space
from backends import resolve
from schedule import Schedule, library
from tensorir import Cpu, Target, ops, te
from tensorir.ops import prim_func
from tests.autotune.sampled_programs import PROGRAMS
from tests.autotune.test_search import QUICK, SPACE, cost, new_state

CPU = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


def matmul(constants=()):
    a, b = te.placeholder((67, 40), name="a"), te.placeholder((40, 33), name="b")
    func = te.create_prim_func([a, b, ops.relu(ops.matmul(a, b), name="out")])
    return make_space(func, CPU, constants=constants)


def convolution():
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((8, 8, 3, 3), name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, padding=1, name="out")])
    return make_space(func, CPU, "algebraic")


def rows():
    """Sums in lanes and in parts, and of an operand that is turned ahead."""
    x, w = te.placeholder((5, 8192), name="x"), te.placeholder((8192, 3), name="w")
    k = te.reduce_axis(8192, "k")
    total = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), name="total")
    product = ops.matmul(x, w, name="product")
    return make_space(te.create_prim_func([x, w, total, product]), CPU)


@pytest.fixture(scope="module")
def spaces():
    return [matmul(), convolution(), rows()]


def told(space):
    """The sketches with a formula, and some candidates of each."""
    rng = random.Random(1)
    for sketch in space.sketches.values():
        rows = [sketch.default(), *(sketch.sample(rng).values for _ in range(5))]
        if sketch.cycles(rows) is not None:
            yield sketch, rows


def test_cycles_of_many_candidates_are_those_of_each_alone(spaces, monkeypatch):
    """In whatever order, by the formulas of the plans, and without a schedule."""
    for space in spaces:
        found = list(told(space))
        assert found
        monkeypatch.setattr(type(space), "build", lambda *_: pytest.fail("a schedule was made"))
        for sketch, rows in found:
            together = sketch.cycles(rows)
            assert together.shape == (len(rows),) and (together > 0).all()
            alone = [by_formulas(sketch, row) for row in rows]
            np.testing.assert_array_equal(together, alone)
            np.testing.assert_array_equal(together[::-1], sketch.cycles(rows[::-1]))


def by_formulas(sketch, row):
    """The cycles of one candidate, of which nothing is remembered."""
    asked = [plan.columns([sketch.decisions(row)], sketch.constants) for plan in sketch.plans]
    return np.sum([column for column in asked if column is not None], axis=0)[0]


def test_a_formula_is_asked_once_for_the_same_values(spaces, monkeypatch):
    """And for all that are feasible at once, where they are few."""
    for sketch, rows in (each for space in spaces for each in told(space)):
        fresh, asked = replace(sketch), Counter()

        def counted(plan, asked=asked):
            names, of = [choice.name for choice in plan.choices], plan.columns

            def columns(some, constants):
                asked.update((plan, *(values[name] for name in names)) for values in some)
                return of(some, constants)

            return columns

        with monkeypatch.context() as patch:
            for plan in fresh.plans:
                patch.setitem(vars(plan), "columns", counted(plan))
            found = [fresh.cycles(rows[:2]), fresh.cycles(rows), fresh.cycles(rows[::-1])]
            np.testing.assert_array_equal(found[1], found[2][::-1])
            np.testing.assert_array_equal(found[1][:2], found[0])
            if sketch.size() <= FEW:
                before = sum(asked.values())
                fresh.cycles([sketch.sample(random.Random(2)).values])
                assert sum(asked.values()) == before
        assert set(asked.values()) == {1}


def test_cycles_of_the_default_are_those_that_it_was_chosen_for(spaces):
    """Of products and sums, Winograd's stages, elementwise stages, and several in one program."""
    kinds = set()
    for space in spaces:
        for sketch, rows in told(space):
            estimates = [plan.estimate() for plan in sketch.plans]
            if None not in estimates:
                kinds |= {plan.name for plan in sketch.plans}
                assert sketch.cycles(rows[:1])[0] == pytest.approx(sum(estimates))
    assert kinds > {"contraction", "winograd", "spatial", "lanes", "parts_lanes", "panel_lanes"}


def test_a_plan_takes_the_same_whichever_plans_are_estimated_with_it():
    """Also where the rows of one tile share more terms than those of another of the same form."""
    x, w = te.placeholder((1, 9, 9, 3), name="x"), te.placeholder((3, 3, 3, 8), name="w")
    out = ops.conv2d(x, w, stride=2, padding=1, layout="NHWC", name="out")
    sch = Schedule(te.create_prim_func([x, w, out]))
    c = library.find_contraction(sch, "out", None, ("pad",))
    nests = [nest for _, nest in plans(c, CPU)]
    one = next(nest for nest in nests if nest.flat == "shifts")
    around = [n for n in c.spatial if n != one.lane]
    for rows in product((1, 2, 5), repeat=len(around)):
        sizes = {one.lane: one.tile[one.lane], **dict(zip(around, rows))}
        nests.append(replace(one, tile=tuple(sizes[n] for n in c.spatial)))
    estimates_of_each(c, nests, CPU)


def test_a_nest_takes_the_same_whether_or_not_others_have_terms_written_out():
    x = te.placeholder((1, 16, 64, 64), name="x")
    sch = Schedule(te.create_prim_func([x, ops.max_pool2d(x, 3, 2, name="out")]))
    c = library.find_contraction(sch, "out")
    masks = ("avx512bw", "avx512f", "fma")
    cpu = Cpu(Target(vector_bits=512, threads=2, features=masks, l1d=32 << 10, l2=1 << 20))
    nests = [nest for _, nest in plans(c, cpu)]
    assert {bool(nest.flat) for nest in nests} == {False, True}
    estimates_of_each(c, nests, cpu)


def estimates_of_each(c, nests, cpu):
    """The estimates of nests are those of each by itself, whichever is the first of its kind."""
    alone = [Estimate(c, cpu).cycles([nest])[0] for nest in nests]
    np.testing.assert_allclose(Estimate(c, cpu).cycles(nests), alone, rtol=1e-12)
    np.testing.assert_allclose(Estimate(c, cpu).cycles(nests[::-1]), alone[::-1], rtol=1e-12)


def test_what_is_packed_ahead_of_all_calls_costs_nothing():
    """As of the estimate by which the default is chosen."""
    packed = {}
    for constants in ((), ("b",)):
        sketch = next(iter(matmul(constants).sketches.values()))
        (plan,) = (p for p in sketch.plans if p.name == "contraction")
        values = dict(sketch.decisions(sketch.default(("b",))))
        c, block = plan.contraction, plan.contraction.block
        lane = values[f"{block}.tile"][0]
        at = next(n for n, o in enumerate(c.operands) if o.buffer == "b")
        values[f"{block}.read"] = (((at, lane),), None)
        (pack,) = nest_of(c, values).packs
        assert pack == library.Pack(at, lane, values[f"{block}.tile"][2][lane])
        packed[constants] = sketch.cycles([tuple(values[x.name] for x in sketch.choices)])[0]
    assert packed["b",] < packed[()]


def tensorized():
    a, b = te.placeholder((48, 64), "uint8", name="a"), te.placeholder((64, 40), "int8", name="b")
    return te.create_prim_func([a, b, ops.matmul(a, b, name="out")])


def recurrence():
    x = te.placeholder((16, 40), name="x")
    return te.create_prim_func([x, ops.cumsum(x, axis=0, name="out")])


def turned():
    x = te.placeholder((64, 40, 24), name="x")
    return te.create_prim_func([x, ops.transpose(x, (2, 1, 0), name="out")])


def places():
    x = te.placeholder((33, 100), name="x")
    return te.create_prim_func([x, ops.argmax(x, axis=1, name="out")])


KINDS = {**PROGRAMS, **{f.__name__: f for f in (tensorized, recurrence, turned, places)}}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINDS)
def test_a_formula_tells_the_cycles_of_all_sketches(name):
    """Of whatever rules: the same of each candidate alone."""
    assert told_everywhere(KINDS[name]())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(ops.OPERATORS)[::8])
def test_a_formula_tells_the_cycles_of_operators(name):
    assert told_everywhere(prim_func(name))


def told_everywhere(func):
    """How many sketches of a program with choices there are, each with a formula."""
    device = Cpu(resolve("c -march=sapphirerapids -threads=2"))
    rng, told = random.Random(0), 0
    for sketch in make_space(func, device).sketches.values():
        rows = [sketch.sample(rng).values for _ in range(6)]
        cycles = sketch.cycles(rows)
        if sketch.choices:
            assert cycles is not None, sketch.name
            assert np.isfinite(cycles).all() and (cycles > 0).all()
            np.testing.assert_allclose(cycles, [sketch.cycles([row])[0] for row in rows])
            told += 1
    return told


def test_a_formula_for_a_part_of_the_work_decides_nothing(monkeypatch):
    """Where another part is open too: the part without a formula may be most of the time."""
    a, b = te.placeholder((40, 33), name="a"), te.placeholder((33, 24), name="b")
    product = ops.matmul(a, b, name="product")
    func = te.create_prim_func([a, b, ops.cumsum(product, name="out")])
    monkeypatch.setattr(ScanPlan, "columns", Plan.columns)
    untold = 0
    for sketch in make_space(func, CPU).sketches.values():
        values = sketch.decisions(sketch.default())
        formulas = [p.columns([values]) is not None for p in sketch.plans if p.choices]
        known = sketch.cycles([sketch.default()]) is not None
        assert known == (bool(formulas) and all(formulas))
        untold += any(formulas) and not known
    assert untold


def test_padding_in_masked_loads_costs_about_what_other_loads_do():
    """So it hardly decides between nests where there are masks. Else each lane looks for itself."""
    x, w = te.placeholder((1, 8, 200), name="x"), te.placeholder((12, 8, 5), name="w")
    sch = Schedule(te.create_prim_func([x, w, ops.conv1d(x, w, padding=2, name="out")]))
    c = library.find_contraction(sch, "out", None, ("pad",))
    lane = c.spatial[-1]
    plan = next(
        n for _, n in plans(c, CPU) if n.lane == lane and n.pad != "inline" and not n.flat
    )
    ratios = {}
    for features in (("fma", "avx2"), ("fma",)):
        one = replace(CPU, target=replace(CPU.target, features=features))
        inline, copied = Estimate(c, one).cycles([replace(plan, pad="inline"), plan])
        ratios[features] = inline / copied
    assert ratios["fma", "avx2"] < 1.2 < 1.5 < ratios["fma",]


@pytest.fixture
def formula():
    """A space in which a formula tells the cycles of one of the sketches: those that it takes."""
    asked = []
    tiled, plain = SPACE.sketches.values()

    class Told(type(tiled)):
        def cycles(self, rows):
            asked.append(len(rows))
            return np.array([cost(evolutionary.Candidate(self.name, row)) for row in rows])

    return Space([Told(**vars(tiled)), plain]), asked


@pytest.mark.parametrize(("trials", "share"), [(0, FIRST), (1, BUILT)])
def test_of_what_a_formula_tells_the_better_part_is_built(formula, trials, share):
    space, asked = formula
    rng = random.Random(0)
    drawn = [space.sample(rng, name) for name in ("tiled", "plain") for _ in range(30)]
    state = new_state()
    for _ in range(trials):
        state.add(space.sample(random.Random(1), "plain"), 1.0)
    pool = Pool(space, state, 50)
    kept = pool.promising(drawn)
    of_one = [c for c in kept if c.sketch == "tiled"]
    assert asked == [30] and len(of_one) == ceil(30 * share), "so many may be built yet:"
    assert pool.left == len(kept) == 20 + len(of_one)
    assert kept == [c for c in drawn if c in kept], "in their order"
    slowest = max(map(cost, of_one))
    assert all(cost(c) >= slowest for c in drawn[:30] if c not in of_one)
    assert [c for c in kept if c.sketch == "plain"] == drawn[30:50], "the others as they come"


def test_what_a_formula_cannot_tell_apart_is_built(formula, monkeypatch):
    space, _ = formula
    (told, _) = space.sketches.values()
    monkeypatch.setattr(type(told), "cycles", lambda self, rows: np.ones(len(rows)))
    drawn = [space.sample(random.Random(seed), "tiled") for seed in range(12)]
    assert Pool(space, new_state(), 50).promising(drawn) == list(dict.fromkeys(drawn))


def test_of_the_steps_from_the_best_trials_the_better_part_is_built(formula):
    space, asked = formula
    state, rng = new_state(), random.Random(0)
    for _ in range(4):
        parent = space.sample(rng, "tiled")
        state.add(parent, cost(parent))
    near = {c for c in space.neighbors(state.ranked()[0]) if not state.spent(c)}
    pool = Pool(space, state, 50)
    steps(space, state, pool, len(near), rng)
    assert asked[0] == len(near) and pool.left == 50 - len(near), "as many were looked at"
    assert all(count <= len(pool.scores) + 4 for count in asked[1:]), "trials and what is built"
    last = sorted(map(cost, near))[ceil(len(near) * BUILT) - 1]
    better = {c for c in near if cost(c) <= last}
    assert pool.scores and pool.scores.keys() <= better, "those of the very best first"


def test_searches_build_less_where_formulas_tell_and_find_more(formula):
    """In the mean of some seeds: of one search chance says more."""
    space, _ = formula
    built, found = np.zeros(2), np.zeros(2)
    for seed in range(8):
        for n, where in enumerate((SPACE, space)):
            state, rng = new_state(), random.Random(seed)
            for _ in range(3):
                for candidate in evolutionary.propose(where, state, 8, rng, QUICK):
                    state.add(candidate, cost(candidate))
            built[n] += state.builds
            found[n] += np.log(state.best_seconds()) / 8
    assert built[1] < 0.6 * built[0] and np.exp(found[1] - found[0]) < 0.95
