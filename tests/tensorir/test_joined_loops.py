"""Loops that a condition takes as one: made one, they write the same elements, each as often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from tensorir.arith import Analyzer
from tensorir.arith.exhaustive import values_at
from tensorir.expr import TRUE, Expr, Var, all_of, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.joined import joined_indices, joined_loops
from tensorir.stmt import Block, For, Stmt
from tensorir.text.parser import parse
from tensorir.visit import substitute, walk

COPY = """
def f(A: f32[n, 4096], B: f32[n]):
    T = alloc(f32[n, 4096])
    for o in range(n):
        for {loops} in grid({extents}):
            with block("T"):
                vo = spatial(n, o)
                v = spatial(4096, {index})
                where({cond})
                T[vo, v] = A[vo, v]
        with block("B"):
            vo = spatial(n, o)
            B[vo] = T[vo, 0]
"""


def nest_of(stmt: Stmt) -> tuple[list[For], Block]:
    """The loops around the copy, the outermost apart, and its block."""
    block = next(s for s in walk(stmt) if isinstance(s, Block) and s.name == "T")
    around = [s for s in walk(stmt) if isinstance(s, For) and block in list(walk(s))]
    return around[1:], block


def written(stmt: Stmt) -> Counter[int]:
    """The elements of a row that the copy stores, and how often."""
    loops, block = nest_of(stmt)
    found = Counter[int]()
    for point in product(*[range(loop.const_extent or 0) for loop in loops]):
        at = {loop.var: np.array(n) for loop, n in zip(loops, point)}
        if block.predicate is TRUE or values_at(block.predicate, at):
            found[int(values_at(block.iters[1].binding, at))] += 1
    return found


def joined(func: PrimFunc) -> Stmt:
    outer = func.body
    assert isinstance(outer, For)
    return joined_loops(outer, func.buffers[0], outer.var, func.size_ranges)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_elements_are_written(seed: int) -> None:
    rng, made = random.Random(seed), 0
    for _ in range(12):
        names = "abcd"[: rng.randint(2, 4)]
        extents = [rng.randint(1, 5) for _ in names]
        order = rng.sample(range(len(names)), len(names))
        of = order[: rng.randint(2, len(names))]
        steps = {n: prod(extents[m] for m in of[at + 1 :]) for at, n in enumerate(of)}
        scale = rng.choice((1, 1, 3))
        whole = " + ".join(f"{names[n]} * {scale * step}" for n, step in steps.items())
        rest = " + ".join(f"{names[n]} * 200" for n in range(len(names)) if n not in of) or "0"
        most = scale * prod(extents[n] for n in of)
        index = rng.choice((
            f"({whole}) // 3 * 7 + ({whole}) % 5", f"{whole} + {rest}", f"({whole} + {rest}) // 2",
            f"{names[of[0]]} * 31 + {names[of[-1]]} + {rest}",
        ))  # fmt: skip
        cond = f"{whole} {rng.choice(('<', '<='))} {rng.randint(0, most + 1)}"
        cond += rng.choice(("", f" and 1 <= ({whole}) % 4", f" and {names[0]} < 3"))
        func = parse(COPY.format(
            loops=", ".join(names), extents=", ".join(map(str, extents)), index=index, cond=cond
        ))  # fmt: skip
        after = joined(func)
        assert written(after) == written(func.body), (index, cond, extents)
        made += len(nest_of(after)[0]) < len(names)
    assert made > 2


@pytest.mark.parametrize(
    ("cond", "count"),
    [
        ("a * 8 + b < 20", 1),
        ("a * 8 + b <= 19 and b % 2 < 1", 1),
        ("a * 7 + b < 20", 2),  # some numbers twice
        ("a * 9 + b < 20", 2),  # some never
        ("b * 8 + a < 20", 2),
        ("a < 2", 2),
        ("a * 8 + b < n", 2),
    ],
)
def test_what_is_no_number_of_iterations_stays(cond: str, count: int) -> None:
    func = parse(COPY.format(loops="a, b", extents="3, 8", index="a * 8 + b", cond=cond))
    loops, block = nest_of(joined(func))
    assert len(loops) == count
    assert (joined(func) is func.body) == (count == 2)
    if count == 1:
        assert loops[0].extent is const(20)


def test_a_nest_that_reads_what_it_writes_stays() -> None:
    text = COPY.format(loops="a, b", extents="3, 8", index="a * 8 + b", cond="a * 8 + b < 20")
    func = parse(text.replace("= A[vo, v]", "= T[vo, v] + A[vo, v]"))
    assert joined(func) is func.body


def test_loops_outside_stay() -> None:
    func = parse(
        COPY.format(loops="a, b", extents="3, 8", index="a * 8 + b", cond="a * 8 + b < 20")
    )
    (first, *_), _ = nest_of(func.body)
    assert joined_loops(func.body, func.buffers[0], first.var, func.size_ranges) is func.body


def places(indices: tuple[Expr, ...], cond: Expr, extents: Mapping[Var, Expr]) -> set[Any]:
    """All that some indices are where a condition holds."""
    points = {
        var: np.arange(int_value(n) or 0).reshape([-1 if v is var else 1 for v in extents])
        for var, n in extents.items()
    }
    shape = [int_value(n) for n in extents.values()]
    holds = np.broadcast_to(np.asarray(values_at(cond, points), bool), shape)
    values = [np.broadcast_to(values_at(index, points), shape)[holds] for index in indices]
    return set(zip(*[value.tolist() for value in values]))


@pytest.mark.parametrize("seed", range(4))
def test_the_same_places_are_reached(seed: int) -> None:
    """Of numbers whose last part is what is left of a thread, or its warp and its lane, too."""
    rng, made = random.Random(seed), 0
    a, b, t = (Var(name) for name in "abt")
    for _ in range(25):
        unit, threads = rng.choice((1, 2, 4)), rng.choice((4, 8, 12))
        extents = {a: const(rng.randint(1, 4)), b: const(rng.randint(1, 3)), t: const(threads)}
        inner = threads // unit if threads % unit == 0 else 1
        step = rng.choice((inner, inner, inner, inner + 1))
        number = a * step + (t // unit if unit > 1 else t)
        cond = rng.choice((number < rng.randint(0, 4 * inner), number <= rng.randint(0, 9)))
        cond = all_of(cond, *rng.choice(((), (b < 2,), (1 <= (a * threads + t) % 5,))))
        indices = ((a * threads + t) // 3 % 4, rng.choice((b, a * 16 + t * 2 + b, t % 3)))
        found = joined_indices(indices, cond, extents, Analyzer(extents))
        assert places(*found[:3]) == places(indices, cond, extents), (indices, cond, extents)
        made += len(found.extents) < 3
        split = substitute(cond, {t: t // 4 * 4 + t % 4}) if unit == 1 else cond
        again = joined_indices(indices, split, extents, Analyzer(extents))
        assert len(again.extents) == len(found.extents), (indices, split, extents)
        assert places(*again[:3]) == places(*found[:3]), (indices, split, extents)
    assert made > 5
