"""Partial sums in lanes and in parts: what they leave is a contraction, and they sum up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends import ObjectCache, build, resolve
from schedule import Schedule
from schedule.library import (
    Contraction,
    MovedPlan,
    NestPlan,
    Partial,
    find_contraction,
    make_moved_nest,
    partial_sums,
    parts,
    with_partial,
)
from schedule.library import lanes as in_lanes
from tensorir import PrimFunc, TensorIRError, ops, reference, te

TARGET = resolve("c -vector_bits=512 -threads=2")


def reduction(f: Callable[[Any], Any], *shape: Any, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, f(x)])


def matmul(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b")
    return te.create_prim_func([a, b, ops.matmul(a, b, transpose_b=True)])


def summed(func: PrimFunc) -> tuple[Schedule, Contraction]:
    sch = Schedule(func)
    name = next(n for n in sch.get_blocks() if sch.state.block(n).is_reduction)
    users = sch.get_consumers(name)
    return sch, find_contraction(sch, str(name), str(users[0]) if users else None)


def forms(c: Contraction) -> list[tuple[Any, ...]]:
    return [
        (a.reduce, a.extent, tuple(o.strides[n] for o in c.operands), c.sums.strides[n])
        for n, a in enumerate(c.axes)
    ]


ROWS: dict[str, Callable[[], PrimFunc]] = {
    "rows": lambda: reduction(lambda x: ops.sum(x, 1), 7, 100),
    "rows, in order": lambda: reduction(lambda x: ops.sum(x, 1), 12, 96),
    "columns": lambda: reduction(lambda x: ops.sum(x, 0), 100, 7),
    "middle": lambda: reduction(lambda x: ops.sum(x, 1), 3, 50, 5),
    "two apart": lambda: reduction(lambda x: ops.sum(x, (0, 2)), 4, 5, 50),
    "products": lambda: matmul(5, 6, 70),
    "unit axes": lambda: reduction(lambda x: ops.sum(x, (1, 2), keepdims=True), 7, 1, 100, 1),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ["lanes", "parts"])
def test_what_is_left_is_the_contraction_of_the_new_block(name: str, kind: Any) -> None:
    sch, c = summed(ROWS[name]())
    axis = max(c.reduced, key=lambda n: c.axes[n].extent or 0)
    what = Partial(axis, 16 if kind == "lanes" else 3, kind)
    found = partial_sums(sch, c, what)
    assert forms(found) == forms(find_contraction(sch, found.block))
    plain = with_partial(c, what)
    assert forms(found) == forms(plain) and found.result.strides == plain.result.strides


@pytest.mark.parametrize("inner", [4, 16])
def test_all_of_an_axis_may_be_lanes_where_others_have_terms(inner: int) -> None:
    x, s = te.placeholder((7, 6, inner), name="x"), te.placeholder((7, 6), name="s")
    k, g = te.reduce_axis(inner, "k"), te.reduce_axis(6, "g")
    out = te.compute((7,), lambda i: te.sum(x[i, g, k] * s[i, g], axis=[g, k]), name="out")
    sch, c = summed(te.create_prim_func([x, s, out]))
    axis = next(n for n in c.reduced if c.axes[n].extent == inner)
    what = Partial(axis, inner, "lanes")
    found = partial_sums(sch, c, what)
    plain = with_partial(c, what)
    assert forms(found) == forms(plain) == forms(find_contraction(sch, found.block))
    assert [found.axes[n].extent for n in found.reduced] == [6]
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 6, inner), np.float32), rng.random((7, 6), np.float32)
    want = np.einsum("igk,ig->i", a.astype(np.float64), b)
    np.testing.assert_allclose(build(sch, TARGET)(a, b), want, rtol=1e-5)


def test_all_terms_in_lanes_save_nothing() -> None:
    sch, c = summed(reduction(lambda x: ops.sum(x, 1), 7, 16))
    with pytest.raises(TensorIRError, match="save nothing"):
        partial_sums(sch, c, Partial(c.reduced[0], 16, "lanes"))


def test_an_axis_of_several_is_cut_as_one() -> None:
    sch, c = summed(reduction(lambda x: ops.sum(x, (1, 2)), 5, 7, 9))
    (whole,) = c.reduced
    found = partial_sums(sch, c, Partial(whole, 16, "lanes"))
    assert [axis.extent for axis in found.axes] == [5, 16, 4] and found.missing == 1
    assert [o.strides for o in found.operands] == [(63, 1, 16)]


def test_parts_are_whole_multiples_of_a_step() -> None:
    _, c = summed(reduction(lambda x: ops.sum(x, 1), 2, 1000))
    found = with_partial(c, Partial(c.reduced[0], 3, "parts", 64))
    assert [axis.extent for axis in found.axes] == [3, 2, 384]


def lanes(c: Contraction, count: int, rows: int = 1, **more: Any) -> MovedPlan:
    """Lanes along the last axis, and so many rows of the last axis of the result."""
    what = Partial(c.reduced[-1], count, "lanes")
    left = with_partial(c, what)
    tile = [1] * len(left.spatial)
    tile[-1] = count
    if len(tile) > 1:
        tile[-2] = rows
    nest = NestPlan(left.spatial[-1], 16, tuple(tile), tuple(tile), left.written, left.spatial)
    return MovedPlan(((in_lanes, (what.axis, count)),), NestPlan(**{**vars(nest), **more}))


CASES: dict[str, tuple[Callable[[], PrimFunc], int, int]] = {
    "rows": (lambda: reduction(lambda x: ops.sum(x, 1), 7, 100), 16, 1),
    "rows together": (lambda: reduction(lambda x: ops.sum(x, 1), 7, 100), 32, 4),
    "of prime length": (lambda: reduction(lambda x: ops.max(x, 1), 3, 997), 64, 2),
    "one result": (lambda: reduction(lambda x: ops.sum(x), 9, 101), 64, 1),
    "products of bytes": (
        lambda: reduction(lambda x: ops.sum(x, 1, dtype="int32"), 5, 300, dtype="int8"), 64, 3,
    ),
    "float64": (lambda: reduction(lambda x: ops.min(x, 1), 5, 41, dtype="float64"), 8, 2),
    "any": (lambda: reduction(lambda x: ops.any(x, 1), 5, 200, dtype="bool"), 64, 2),
    "a stage after it": (lambda: reduction(lambda x: ops.relu(ops.sum(x, 1)), 9, 130), 32, 4),
    "of any size": (
        lambda: reduction(lambda x: ops.sum(x, 1), te.size_var("m"), te.size_var("n")), 32, 4,
    ),
    "of two sizes": (
        lambda: reduction(lambda x: ops.sum(x, 2), te.size_var("m"), te.size_var("n"), 50), 16, 1,
    ),
    "dots": (lambda: matmul(5, 7, 50), 16, 3),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_lanes_are_added_up_with_each_tile(name: str, cache: ObjectCache) -> None:
    make, count, rows = CASES[name]
    func = make()
    sch, c = summed(func)
    make_moved_nest(sch, c, lanes(c, count, rows))
    kernel = build(sch, TARGET, cache=cache)
    rng = np.random.default_rng(0)
    for size in (1, 5, 40) if func.size_vars else (1,):
        args = [
            rng.integers(-3, 4, [int(str(n)) if str(n).isdigit() else size for n in p.shape])
            for p in func.inputs
        ]
        args = [a.astype(p.dtype) for a, p in zip(args, func.inputs)]
        (want,) = reference(func, *args)
        np.testing.assert_array_equal(kernel(*args), want)


@pytest.mark.parametrize("depth", [0, 4])
@pytest.mark.parametrize(("terms", "columns"), [(100, 80), (97, 37)])
def test_parts_are_added_up_after_all(
    terms: int, columns: int, depth: int, cache: ObjectCache
) -> None:
    func = reduction(lambda x: ops.relu(ops.sum(x, 0)), terms, columns)
    sch, c = summed(func)
    part = Partial(c.reduced[0], 3, "parts")
    left = with_partial(c, part)
    wide, task = (32, 64) if depth else (48, 48)
    nest = NestPlan(1, 16, (1, wide), (1, task), left.written, left.spatial, depth=depth)
    make_moved_nest(sch, c, MovedPlan(((parts, (part.axis, 3, 1, 16)),), nest))
    x = np.random.default_rng(0).integers(-3, 4, (terms, columns)).astype("float32")
    got = build(sch, TARGET, cache=cache)(x)
    np.testing.assert_array_equal(got, np.maximum(x.sum(0), 0))


def test_nan_and_infinity_arrive(cache: ObjectCache) -> None:
    sch, c = summed(reduction(lambda x: ops.sum(x, 1), 4, 100))
    make_moved_nest(sch, c, lanes(c, 32, 2))
    assert sch.numerics == "reassociated"
    x = np.ones((4, 100), "float32")
    x[1, 99], x[2, 0], x[3, 50:52] = np.nan, np.inf, (np.inf, -np.inf)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(build(sch, TARGET, cache=cache)(x), x.sum(1))


@pytest.mark.parametrize("count", [1, 100, 200])
def test_sums_that_save_nothing_are_refused(count: int) -> None:
    sch, c = summed(reduction(lambda x: ops.sum(x, 1), 4, 100))
    before = sch.func
    with pytest.raises(TensorIRError, match="save nothing"):
        partial_sums(sch, c, Partial(c.reduced[0], count, "lanes"))
    assert sch.func is before


def test_an_index_in_a_value_goes_along_if_it_needs_no_division() -> None:
    def weighted(step: int) -> int:
        x = te.placeholder((6, 10), name="x")
        i, j = te.reduce_axis(6, name="i"), te.reduce_axis(10, name="j")
        y = te.compute((), lambda: te.sum(x[i, j] * (i * step + j).astype("float32"), axis=[i, j]))
        return len(summed(te.create_prim_func([x, y]))[1].axes)

    assert weighted(10) == 1 and weighted(7) == 2


@pytest.mark.parametrize("step", [1, 8])
@pytest.mark.parametrize("count", [9, 16])
def test_parts_of_fewer_terms_than_there_are_parts_are_refused(count: int, step: int) -> None:
    """Also where it is a bound that tells how many terms there are."""
    end = te.var("end")
    x, k = te.placeholder((7, 9), name="x"), te.reduce_axis(te.min(end, 9), "k")
    out = te.compute((7,), lambda i: te.sum(x[i, k], axis=k), name="out")
    sch, c = summed(te.create_prim_func([end, x, out]))
    before = sch.func
    with pytest.raises(TensorIRError, match="save nothing"):
        partial_sums(sch, c, Partial(c.reduced[0], count, "parts", step))
    assert sch.func is before
