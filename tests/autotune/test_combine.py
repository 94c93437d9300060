"""Which plans go together in the sketches of a space, where there are too many ways."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from autotune.rules import make_space
from autotune.rules.plan import MOST_SKETCHES, combined
from autotune.rules.planned import PlannedSketch
from tensorir import Cpu, Target, te
from tests.autotune.sampled_programs import PROGRAMS

CPU = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


class Some:
    """A plan that is there to be combined."""

    def __init__(self, name: str, safe: bool = True, wants: str = "") -> None:
        self.name, self.always, self.wants = name, safe, wants

    def suits(self, constants) -> bool:
        return self.wants in ("", *constants)


def names(parts, seed=0, constants=()) -> list[str]:
    found = combined(parts, random.Random(seed), constants)
    return ["".join(plan.name for plan in plans) for plans in found]


def parts(groups, count):
    """Parts with so many ways, all of them different."""
    return [[(Some(f"{group}{n}"),) for n in range(count)] for group in groups]


def test_every_plan_is_in_a_sketch():
    """First the best of all, then each other plan; the rest is drawn, and not cut at the end."""
    found = names(parts("abcde", 4))
    assert len(found) == len(set(found)) == MOST_SKETCHES
    assert found[0] == "a0b0c0d0e0"
    assert {f"{g}{n}" for g in "abcde" for n in range(4)} <= {
        name[at : at + 2] for name in found for at in range(0, 10, 2)
    }
    assert len(names(parts("abc", 9))) == 25  # each is in one, however many there are
    assert names([[(Some("a0"),), (Some("a1"),)], [(Some("b0"),)]]) == ["a0b0", "a1b0"]
    assert names([]) == [""]


def test_plans_that_suit_always_go_together():
    """Whatever operands are constants, a default is among the first."""
    some = [[(Some(f"{g}0", False),), (Some(f"{g}1"),)] for g in "abcdefgh"]
    assert "a1b1c1d1e1f1g1h1" in names(some)


def test_plans_that_suit_these_constants_go_together():
    """The first of each part that does: another part takes none that suits always for its sake."""
    some = [[(Some(f"{g}0", False, w),), (Some(f"{g}1"),)] for g, w in zip("abcdefgh", "vwvwvwvv")]
    assert "a0b1c0d1e0f1g0h0" in names(some, constants=("v",))
    assert "a1b0c1d0e1f0g1h1" in names(some, constants=("w",))


def test_draws_are_those_of_the_seed():
    draw = [names(parts("abcd", 4), seed) for seed in (0, 0, 1)]
    assert draw[0] == draw[1] != draw[2]


def products(count_):
    """So many products in one program: each has plans of several rules."""
    params, outputs = [], []
    for n in range(count_):
        a, b = (te.placeholder((8, 100 + n), name=f"{x}{n}") for x in "ab")
        k = te.reduce_axis(100 + n, name="k")
        params += [a, b]
        term = lambda i, j, a=a, b=b, k=k: te.sum(a[i, k] * b[j, k], axis=k)  # noqa: E731
        outputs.append(te.compute((8, 8), term, name=f"c{n}"))
    return te.create_prim_func([*params, *outputs], name="products")


def test_plans_of_later_groups_are_in_a_space():
    """Of five products, with more ways than sketches: plans of the last rules for the first one."""
    func = products(5)
    space = make_space(func, CPU)
    sketches = [s for s in space.sketches.values() if "nest" not in s.name]
    assert sketches[0].ways > len(sketches) >= MOST_SKETCHES
    alone = [s for s in make_space(products(1), CPU).sketches.values() if "nest" not in s.name]
    rules = {plan.name for sketch in alone for plan in sketch.plans}
    for n in range(5):
        found = {p.name for s in sketches for p in s.plans if p.group.block == f"c{n}"}
        assert found == rules
    assert list(make_space(func, CPU).sketches) == list(space.sketches)
    assert list(make_space(func, CPU, seed=1).sketches) != list(space.sketches)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_stage_is_scheduled_twice(name):
    """The first rows of a scan were also what is fused behind the sums that they are made of."""
    for sketch in make_space(PROGRAMS[name](), CPU).sketches.values():
        assert isinstance(sketch, PlannedSketch)
        stages = Counter(b for plan in sketch.plans for b in plan.stages or plan.group.blocks)
        assert set(stages.values()) <= {1}, (sketch.name, stages)
        sketch.build(sketch.values())  # nothing is refused
