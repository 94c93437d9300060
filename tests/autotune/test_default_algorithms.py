"""The algorithm of each block of a default schedule: the one of the least estimated time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module

import numpy as np
import pytest

from autotune import Database, default_schedule, tune
from autotune.rules import (
    choose,
    default_candidate,
    default_sketch,
    forget_rule,
    make_space,
    register_rule,
    sketches,
)
from autotune.rules.alternatives import first_start
from autotune.rules.contraction import ContractionPlan, least_cycles
from autotune.rules.group import find_groups
from autotune.rules.ranked import group_contraction
from autotune.rules.winograd import WinogradStages
from backends import build
from benchmarks.general.renamed import NAMINGS, renamed
from schedule import Schedule
from tensorir import Target, device_of, ops, reference, te
from tests.brief import BRIEF

TARGET = Target("c", vector_bits=512, threads=2, features=("avx512f", "fma"))
CPU = device_of(TARGET)
WINS, LOSES = (64, 64, 14), (8, 8, 8)
"""Channels, filters and size of images for which Winograd's algorithm is estimated to be faster,
and to be slower."""


def convolved(x, w, name, **options):
    return ops.conv2d(x, w, padding=1, name=name, **options)


@cache
def conv(c, o, size, layout="NCHW"):
    x = te.placeholder((1, c, size, size) if layout == "NCHW" else (1, size, size, c), name="x")
    w = te.placeholder((o, c, 3, 3) if layout == "NCHW" else (3, 3, c, o), name="w")
    return te.create_prim_func([x, w, convolved(x, w, "out", layout=layout)], name="conv")


@cache
def default(func, numerics="algebraic", constants=("w",)):
    """What needs no tuning, of which several tests ask something: each algorithm is planned."""
    found = choose(func, CPU, numerics, constants)
    return found.start.schedule, found.sketch.build(found.sketch.values(constants))


def algorithms(func, numerics="algebraic", constants=("w",)):
    """By block, of the program that needs no tuning."""
    return default(func, numerics, constants)[0].func.attrs.get("algorithms", {})


def cycles(func, constants=("w",)):
    """Of the plans of a program of one block, by the algorithm."""
    found = {}
    for sketch in sketches(func, CPU, "mixed", constants=constants):
        found.setdefault(sketch.algorithm.partition("(")[0], []).append(sketch)
    first = {name: default_sketch(some, constants) for name, some in found.items()}
    times = {name: [p.estimate(constants) for p in some.plans] for name, some in first.items()}
    return {name: sum(some) for name, some in times.items() if None not in some}


@cache
def product(*shape, kind="float32"):
    x = te.placeholder((shape[0], shape[2]), kind, name="x")
    w = te.placeholder((shape[2], shape[1]), kind, name="w")
    return te.create_prim_func([x, w, ops.matmul(x, w, name="out")])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("func", [
    conv(*WINS), conv(*LOSES), conv(*WINS, "NHWC"), product(64, 64, 64), product(3, 1000, 70),
    product(7, 1, 5000), product(65, 33, 129, kind="float64"),
])  # fmt: skip
def test_no_plan_takes_less_than_its_multiplications(func, threads):
    """So what takes more than another algorithm need not be planned."""
    cpu = device_of(replace(TARGET, threads=threads))
    sch = first_start(func, "reassociated").schedule.copy()
    bound = least_cycles(sch, find_groups(sch), cpu)
    times = [plan.estimate(("w",)) for sketch in sketches(func, cpu, "reassociated", many=True)
             if not sketch.algorithm for plan in sketch.plans]  # fmt: skip
    times = [time for time in times if time is not None]  # nests of all kinds have none
    assert times and 0 < bound <= min(times)


@pytest.mark.parametrize(
    ("sizes", "layout", "wins"),
    [(WINS, "NCHW", True), (WINS, "NHWC", True), (LOSES, "NCHW", False)],
)
def test_the_algorithm_of_the_least_estimated_time(sizes, layout, wins):
    func = conv(*sizes, layout)
    tiles = [f"winograd_{m}x{n}" for m in (4, 2) for n in (4, 2)]
    times = cycles(func)
    best = min(tiles, key=times.__getitem__)
    assert (times[best] < times[""]) == wins
    assert algorithms(func) == ({"out": best} if wins else {})


@pytest.mark.parametrize(
    ("numerics", "allowed"),
    [(None, False), ("bitwise", False), ("reassociated", False), ("algebraic", True),
     ("mixed", True)],
)  # fmt: skip
def test_only_where_the_numerics_asked_for_allow_it(numerics, allowed):
    _, made = default(conv(*WINS), numerics)
    assert bool(made.func.attrs.get("algorithms")) == allowed
    assert ("use_algorithm" in str(made.trace.as_python())) == allowed
    assert made.numerics == ("algebraic" if allowed else made.numerics)
    assert made.numerics != "bitwise" if numerics is None else True


def test_it_is_the_estimate_that_decides():
    """Other costs of the same processor, another choice; and weights that are no constants."""
    slow = replace(CPU, costs=replace(CPU.costs, copy=200.0))
    assert algorithms(conv(*WINS))
    assert not choose(conv(*WINS), slow, "algebraic", ("w",)).start.name
    wide = conv(256, 256, 4)
    assert algorithms(wide)["out"].startswith("winograd")
    assert not algorithms(wide, constants=()).get("out", "").startswith("winograd")


def test_each_block_by_itself():
    """Whatever else is in the program, and what the others get."""
    x = te.placeholder((1, 8, 8, 8), name="x")
    u, v = te.placeholder((64, 8, 1, 1), name="u"), te.placeholder((64, 64, 3, 3), name="v")
    t = te.placeholder((8, 8, 3, 3), name="t")
    small = convolved(x, t, "small")
    wide = ops.conv2d(small, u, name="wide")
    large = convolved(ops.relu(wide), v, "large")
    func = te.create_prim_func([x, u, v, t, ops.relu(large)], name="net")
    names = ("u", "v", "t")
    alone = algorithms(conv(64, 64, 8))["out"]
    assert algorithms(func, constants=names) == {"large": alone}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS)
def test_names_decide_nothing(naming):
    func = renamed(conv(32, 32, 8), naming)
    found = algorithms(func, constants=(func.inputs[1].name,))
    assert [*found.values()] == [*algorithms(conv(32, 32, 8)).values()]


def test_a_plan_that_cannot_tell_its_time_is_not_compared():
    """Not even with what those that are known take at least."""

    class Untold(ContractionPlan):
        name = "untold"

        def estimate(self, constants=()):
            return None

    def untold(sch, group, cpu):
        c = group_contraction(sch, group)
        return [Untold(group, sch.copy(), c, cpu)] if c else []

    register_rule(untold)
    try:
        assert not choose(conv(*WINS), CPU, "algebraic", ("w",)).start.name
    finally:
        forget_rule(untold)
    assert choose(conv(*WINS), CPU, "algebraic", ("w",)).start.name


def test_the_search_begins_with_the_same():
    func = conv(*WINS)
    for numerics in ("reassociated", "algebraic"):
        space = make_space(func, CPU, numerics, constants=("w",))
        first = default_candidate(space, ("w",))
        _, made = default(func, numerics)
        assert str(space.build(first).func) == str(made.func)
        assert (numerics == "algebraic") == first.sketch.startswith("winograd")


def test_a_space_uses_an_algorithm_once(monkeypatch):
    """What is chosen from and what a search looks at are one program."""
    primitive, used = import_module("schedule.primitives.use_algorithm"), []
    apply_algorithm = primitive.apply_algorithm

    def counted(func, block, algorithm):
        made = apply_algorithm(func, block, algorithm)
        used.append(algorithm.name)
        return made

    monkeypatch.setattr(primitive, "apply_algorithm", counted)
    space = make_space(conv(*LOSES), CPU, constants=("w",))
    assert used and len(used) == len(set(used))
    assert {name.partition("(")[0] for name in space.sketches if "(" in name} == set(used)


def test_a_search_of_one_trial_measures_the_default(pretended, tmp_path):
    func = conv(*WINS)
    with Database(tmp_path / "t.db") as database:
        result = tune(func, "c -threads=1", 1, database=database, settings=BRIEF,
                      constants=("w",), strategy="random", cost_model="random")  # fmt: skip
    made = default_schedule(func, "c -threads=1", ("w",), "mixed")
    assert result.record.numerics == made.numerics == "algebraic"
    replayed = Schedule(func).apply(result.schedule.trace)
    assert str(replayed.func) == str(made.func)


def test_two_convolutions_and_what_is_around_them(monkeypatch):
    """The kernel computes the same, with stages of their own for each; nothing is scheduled for
    algorithms that are only compared with them."""
    applied, apply = [], WinogradStages.apply

    def noted(plan, sch, values):
        applied.append(sch.func.attrs["algorithms"])
        apply(plan, sch, values)

    monkeypatch.setattr(WinogradStages, "apply", noted)
    x = te.placeholder((1, 32, 8, 8), name="x")
    u, v = (te.placeholder((32, 32, 3, 3), name=name) for name in "uv")
    y = ops.relu(convolved(ops.relu(x), u, "y"))
    z = ops.softmax(convolved(y, v, "z"), axis=1)
    func = te.create_prim_func([x, u, v, z], name="net")
    made = default_schedule(func, "c -threads=2", ("u", "v"), "algebraic")
    assert set(made.func.attrs["algorithms"]) == {"y", "z"}
    assert applied and all(used == made.func.attrs["algorithms"] for used in applied)
    rng = np.random.default_rng(0)
    arrays = [rng.random(p.const_shape, np.float32) - 0.5 for p in func.inputs]
    (wanted,) = reference(func, *arrays)
    kernel = build(made, "c -threads=2", constants={"u": arrays[1], "v": arrays[2]})
    np.testing.assert_allclose(kernel(arrays[0]), wanted, atol=2e-5)
