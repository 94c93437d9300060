"""Numerics "bitwise": sums of floats are in the order of the text, however a program is written.

Programs are drawn: reductions over several axes, whose operands are read with their axes permuted,
whose result or terms are one axis where they might be several, alone, in products or in rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from autotune import default_schedule, search_space
from autotune.space import Space
from backends import build
from schedule import Schedule
from tensorir import Expr, PrimFunc, TensorIRError, te

CPU = "c -threads=2"
TARGETS = (CPU, "cuda -arch=sm_90")


def parts(index: Expr, sizes: Sequence[int]) -> list[Expr]:
    """One axis as several, row by row."""
    found = []
    for size in reversed(sizes[1:]):
        found.append(index % size)
        index = index // size
    return [index, *reversed(found)]


def drawn(seed: int) -> PrimFunc:
    """A sum of one or two operands, some of which are read in windows."""
    rng = random.Random(seed)
    spatial = [rng.choice((3, 8)), *(rng.choice((8, 16, 30)) for _ in range(rng.randint(1, 2)))]
    reduced = [rng.choice((2, 3, 5, 6, 24)) for _ in range(rng.randint(2, 3))]
    one_result, one_term = rng.random() < 0.6, rng.random() < 0.4
    extents, count = [*spatial, *reduced], len(spatial)
    axes = [te.reduce_axis(n) for n in ([prod(reduced)] if one_term else reduced)]
    operands: list[tuple[list[tuple[int, ...]], te.Tensor]] = []
    for n in range(rng.randint(1, 2)):
        dims = [(d,) for d in range(count) if rng.random() < 0.7 or d == n]
        dims += [(d,) for d in range(count, len(extents))]
        if rng.random() < 0.3:  # a window, of an axis of the result and one of the terms
            dims = [(0, count), *(d for d in dims if d not in ((0,), (count,)))]
        rng.shuffle(dims)
        shape = [sum(extents[d] - 1 for d in dim) + 1 for dim in dims]
        operands.append((dims, te.placeholder(shape, name=f"x{n}")))

    def value(*at: Expr) -> Expr:
        outer = parts(at[0], spatial) if one_result else list(at)
        inner = parts(axes[0], reduced) if one_term else axes
        every = [*outer, *inner]
        reads = [x[tuple(sum(every[d] for d in dim) for dim in dims)] for dims, x in operands]
        return te.sum(reads[0] * reads[-1], axis=axes)

    shape = (prod(spatial),) if one_result else tuple(spatial)
    made = [te.compute(shape, value, name="sums")]
    if rng.random() < 0.3:
        made.append(te.compute(shape, lambda *at: made[0][at] * 2.0 + 1.0, name="after"))
    return te.create_prim_func([*(x for _, x in operands), made[-1]], name=f"drawn_{seed}")


def some_of(space: Space, count: int, seed: int) -> list[Schedule]:
    """Schedules of each sketch."""
    rng, found = random.Random(seed), []
    for name in space.sketches:
        for _ in range(count):
            try:
                found.append(space.build(space.sample(rng, name)))
            except TensorIRError:  # nothing feasible, or a primitive refuses
                continue
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(36))
def test_all_schedules_say_that_they_are(seed, target):
    func = drawn(seed)
    assert default_schedule(func, target, numerics="bitwise").numerics == "bitwise", str(func)
    if target == CPU:
        space = search_space(func, target, numerics="bitwise")
        assert {s.numerics for s in some_of(space, 2, seed)} == {"bitwise"}, str(func)


@pytest.mark.parametrize("seed", (0, 2, 4))
def test_bits_are_those_of_the_text(seed, cache, monkeypatch):
    monkeypatch.setenv("CC", "gcc -ffp-contract=off")  # see docs/reliability.md
    func = drawn(seed)
    rng = np.random.default_rng(seed)
    shapes = [x.const_shape for x in func.inputs]
    arrays = [rng.normal(size=s) * 10.0 ** rng.uniform(-4, 4, s) for s in shapes]
    given = [a.astype(np.float32) for a in arrays]
    expected = build(func, CPU, cache=cache)(*given)
    schedules = some_of(search_space(func, CPU, numerics="bitwise"), 1, seed)
    for made in (default_schedule(func, CPU, numerics="bitwise"), *schedules):
        assert build(made, CPU, cache=cache)(*given).tobytes() == expected.tobytes(), made.trace
