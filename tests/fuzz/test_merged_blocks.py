"""Random schedules around the primitives that merge, nest and replace blocks.

They need programs with a bias after a sum, and requests that the general mix draws too seldom.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError
from schedule.checks.nested import LOOPS_ONLY
from tensorir import PrimFunc, interpret, parse, reference, te, verify

sys.path.insert(0, str(Path(__file__).parent))
from random_schedules import EXTENTS, REQUESTS, WORKLOADS, Stress  # noqa: E402

MOVES = ["split", "fuse", "reorder", "compute_at", "reverse_compute_at", "parallel", "vectorize"]
MERGES = ["reverse_compute_inline", "fuse_reduction_epilogue", "cache_write", "cache_read"]


def added_bias(n: int, m: int, r: int) -> PrimFunc:
    a = te.placeholder((n, r), name="A")
    b = te.placeholder((r, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="D")
    e = te.compute((m, n), lambda i, j: d[j, i] * 2.0, name="E")
    return te.create_prim_func([a, b, bias, e], name="added_bias")


def request(stress: Stress, sch: Schedule, names: list[str], count: int) -> None:
    for _ in range(count):
        name = stress.pick(names)
        arguments = REQUESTS[name](stress, sch)
        before = sch.func
        try:
            if arguments is not None:
                getattr(sch, name)(*arguments)
                stress.accepted[name] += 1
        except ScheduleError:
            assert sch.func is before


def keeps_the_meaning(sch: Schedule, compiled: bool) -> None:
    verify(sch.func)
    assert str(parse(str(sch.func))) == str(sch.func)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in sch.definition.inputs]
    results = [interpret(sch.func, *inputs)]
    if compiled:
        made = build(sch)(*inputs)
        results.append(made if isinstance(made, tuple) else (made,))
    for found in results:
        for got, want in zip(found, reference(sch.definition, *inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def shapes(stress: Stress, options: list[int]) -> list[int]:
    return [stress.pick(options) for _ in range(3)]


def test_merged_consumers():
    stress = Stress(random.Random(0).choice)
    for seed in range(80):
        make = stress.pick([added_bias] * 10 + WORKLOADS)
        sch = Schedule(make(*shapes(stress, EXTENTS)))
        request(stress, sch, [*MOVES, *MERGES, *MERGES, *MERGES], stress.pick([3, 6, 9]))
        keeps_the_meaning(sch, compiled=seed % 10 == 0)
    assert stress.accepted["reverse_compute_inline"] > 10
    assert stress.accepted["fuse_reduction_epilogue"] > 5


def test_nested_blocks():
    stress = Stress(random.Random(1).choice)
    before = ["split", "fuse", "reorder", "compute_at", "decompose_reduction", "cache_write"]
    for seed in range(60):
        sch = Schedule(stress.pick([added_bias, *WORKLOADS])(*shapes(stress, EXTENTS)))
        request(stress, sch, before, stress.pick([2, 4, 6]))
        request(stress, sch, ["blockize"], 8)
        request(stress, sch, list(LOOPS_ONLY), stress.pick([0, 4, 8]))
        keeps_the_meaning(sch, compiled=seed % 10 == 0)
    assert stress.accepted["blockize"] > 30


@pytest.mark.parametrize("seed", range(3))
def test_tensorized_loops(seed):
    """Extents of 4, and reductions whose init is outside, are what the small intrinsics take."""
    stress = Stress(random.Random(seed).choice)
    before = ["split", "reorder", "cache_write", "cache_read", "decompose_reduction"]
    for number in range(24):
        sch = Schedule(stress.pick([added_bias, *WORKLOADS])(*shapes(stress, [4, 8, 4, 3])))
        request(stress, sch, before, stress.pick([2, 4, 8]))
        request(stress, sch, ["tensorize"], 6)
        request(stress, sch, [*MOVES, "unroll", "compute_inline"], stress.pick([0, 4]))
        keeps_the_meaning(sch, compiled=number % 8 == 0)
    assert stress.accepted["tensorize"] > 5
