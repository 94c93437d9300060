"""Split-K: long sums with few results are computed in parts."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune.rules import default_candidate, make_space
from autotune.rules.split_k import LONG
from backends import build
from schedule import Schedule
from tensorir import Cpu, For, ForKind, PrimFunc, Target, te, walk

TARGET = Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20)
MACHINE = Cpu(TARGET)
RELU = "relu"


def product(m: int, n: int, k: int, epilogue: str = "", dtype: str = "float32") -> PrimFunc:
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if not epilogue:
        return te.create_prim_func([a, b, c], name="product")
    out = te.compute((m, n), lambda i, j: te.max(c[i, j], 0.0), name="out")
    return te.create_prim_func([a, b, out], name="product")


def is_split(name: str) -> bool:
    return "split_k" in name


def default(func: PrimFunc) -> tuple[str, Schedule]:
    space = make_space(func, MACHINE)
    candidate = default_candidate(space)
    return candidate.sketch, space.build(candidate)


def check(func: PrimFunc, schedule: Schedule) -> None:
    """Small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs)
    wanted = a.astype("float64") @ b.astype("float64")
    if func.buffers:  # of the product, which relu reads
        wanted = np.maximum(wanted, 0)
    np.testing.assert_array_equal(build(schedule)(a, b), wanted)


@pytest.mark.parametrize(
    "func",
    [
        product(16, 16, 4 * LONG),
        product(1, 10, 2 * LONG),
        product(7, 33, 2 * LONG + 2),
        product(5, 2, 2 * LONG),
        product(9, 17, 2 * LONG, RELU),
        product(3, 9, 2 * LONG, dtype="float64"),
        product(3, 9, 2 * LONG, dtype="int32"),
    ],
    ids=lambda func: "x".join(str(p.const_shape) for p in func.inputs),
)
def test_few_results_of_long_sums_are_split_by_default(func: PrimFunc) -> None:
    sketch, schedule = default(func)
    assert is_split(sketch)
    check(func, schedule)


@pytest.mark.parametrize("m, n, k", [(16, 16, 4 * LONG), (1, 10, 2 * LONG), (64, 64, 8 * LONG)])
def test_samples_of_the_split_compute_the_product(m: int, n: int, k: int) -> None:
    func = product(m, n, k)
    space = make_space(func, MACHINE)
    (sketch,) = [name for name in space.sketches if is_split(name)]
    rng = random.Random(0)
    for _ in range(3):
        check(func, space.build(space.sample(rng, sketch)))


@pytest.mark.parametrize(
    "m, n, k",
    [
        (16, 16, LONG),  # short
        (16, 16, 9973),  # prime: no equal parts
        (16, 16, 0),
        (0, 16, 4 * LONG),
        (2048, 512, 4 * LONG),  # many results
    ],
)
def test_other_products_stay_whole(m: int, n: int, k: int) -> None:
    assert not any(map(is_split, make_space(product(m, n, k), MACHINE).sketches))


def test_a_search_may_split_where_results_are_not_many() -> None:
    space = make_space(product(64, 64, 8 * LONG), MACHINE)
    assert any(map(is_split, space.sketches))
    assert not is_split(default_candidate(space).sketch)


def test_one_thread_splits_only_for_the_cache() -> None:
    alone = Cpu(
        Target(vector_bits=512, threads=1, features=("avx512f",), l1d=32 << 10, l2=1 << 20)
    )
    assert not any(map(is_split, make_space(product(6, 16, 4 * LONG), alone).sketches))
    assert any(map(is_split, make_space(product(6, 64, 16 * LONG), alone).sketches))


def test_bitwise_spaces_do_not_split() -> None:
    func = product(16, 16, 4 * LONG)
    assert not any(map(is_split, make_space(func, MACHINE, "bitwise").sketches))
    _, schedule = default(func)
    assert schedule.numerics == "reassociated"


def test_nan_and_infinity_arrive() -> None:
    func = product(2, 3, 2 * LONG)
    a, b = np.ones((2, 2 * LONG), "float32"), np.ones((2 * LONG, 3), "float32")
    a[0, -1], b[5, 1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(build(default(func)[1])(a, b), a @ b)


def test_threads_get_work_that_the_results_alone_do_not_give() -> None:
    func = product(1, 10, 64 * LONG)
    space = make_space(func, MACHINE)
    split, whole = default(func)[1], space.sketches["C:tiled"]
    assert tasks(split) >= MACHINE.threads
    assert tasks(whole.build(dict(zip([c.name for c in whole.choices], whole.default())))) == 1


def tasks(schedule: Schedule) -> int:
    """Iterations of the longest parallel loop."""
    loops = [s for s in walk(schedule.func.body) if isinstance(s, For)]
    return max(s.const_extent or 0 for s in loops if s.kind is ForKind.PARALLEL)
