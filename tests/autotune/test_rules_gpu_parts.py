"""Long sums in parts of blocks of threads, of any length: the last part may be shorter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from autotune.rules.gpu.product import contraction_of
from autotune.rules.gpu.sums.reductions import reduction_plans
from autotune.rules.gpu.tiles import tile_plans
from autotune.rules.group import Group, find_groups
from backends import build
from benchmarks.general.form import numbers
from schedule import Schedule, library
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))

MORE = 1.25
"""Times as long as with a length that parts divide."""


def counted(x: te.Tensor) -> te.Tensor:
    """How often each of some numbers is there: a sum that is no product."""
    k = te.reduce_axis(x.shape[0], name="k")
    one, none = te.const(1, "int32"), te.const(0, "int32")
    return te.compute((64,), lambda n: te.sum(te.if_then_else(x[k] == n, one, none), axis=k))


LONG: dict[str, Callable[[int, int, int], PrimFunc]] = {
    "product": lambda m, n, k: program(ops.matmul, (m, k), (k, n)),
    "of rows": lambda m, n, k: program(
        lambda a, b: ops.matmul(a, b, transpose_b=True), (m, k), (n, k)
    ),
    "of columns": lambda m, n, k: program(
        lambda a, b: ops.matmul(a, b, transpose_a=True), (k, m), (k, n)
    ),
    "batches": lambda m, n, k: program(ops.batch_matmul, (2, m, k), (2, k, n)),
    "with what is done to it": lambda m, n, k: program(
        lambda a, b: ops.relu(ops.matmul(a, b)), (m, k), (k, n)
    ),
    "windows": lambda m, n, k: program(ops.conv2d, (1, k, 4, 8), (m, k, 3, 3)),
    "by itself": lambda m, n, k: program(lambda x: ops.matmul(x, x, transpose_a=True), (k, m)),
    "no product": lambda m, n, k: program(counted, (k,), dtype="int32"),
}


def program(make, *shapes: tuple[int, ...], dtype: str = "float32") -> PrimFunc:
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def scheduled(func: PrimFunc) -> tuple[list[str], Schedule]:
    sketch = choose(func, DEVICE, None, ()).sketch
    return [plan.name for plan in sketch.plans], sketch.build(sketch.values())


def taken(func: PrimFunc) -> float:
    return cycles(works_of(scheduled(func)[1].func, DEVICE), DEVICE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("terms", [16411, 16388])
@pytest.mark.parametrize("name", LONG)
def test_a_sum_of_any_length_takes_as_long_as_one_that_parts_divide(name, terms):
    """One of 16,411 terms, a prime, had no parts, and took up to 37 times as long."""
    make = LONG[name]
    assert taken(make(64, 64, terms)) <= MORE * taken(make(64, 64, 16384))
    assert taken(make(61, 67, terms)) <= MORE * taken(make(61, 67, 16384))


def lagged(x: te.Tensor, lags: int) -> te.Tensor:
    """An array times itself, so many elements on."""
    k = te.reduce_axis(x.shape[0] - lags, name="k")
    return te.compute((lags,), lambda n: te.sum(x[k] * x[k + n], axis=k))


@pytest.mark.parametrize("terms", [1 << 16, 65539])
def test_sums_over_an_array_at_two_places_read_no_more_than_both(terms):
    """A thread copied all that is between the places of its terms."""
    func = program(lambda x: lagged(x, 64), (terms + 64,))
    plans = reduction_plans(Schedule(func), Group("C"), DEVICE)
    (plan,) = (plan for plan in plans if plan.name == "few_values")
    sch = Schedule(func)
    plan.apply(sch, plan.default())
    works = works_of(sch.func, DEVICE)
    assert sum(work.sectors for work in works) <= MORE * sum(work.least for work in works)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sizes", [(16, 24, 4099), (17, 19, 2053), (33, 24, 2050)])
@pytest.mark.parametrize("name", LONG)
def test_shorter_last_parts_add_up(name, sizes, cache):
    func = LONG[name](*sizes)
    plans, sch = scheduled(func)
    assert plans == ["product"]
    arrays = numbers(func)
    checked = f"{TARGET} -check=bounds,races,uninitialised"
    found = build(sch, checked, cache=cache)(*arrays)
    np.testing.assert_array_equal(found, reference(func, *arrays)[0])


@pytest.mark.parametrize("terms", [2707, 4096, 4099])
def test_axes_of_one_value_have_the_tiles_of_a_program_without_them(terms):
    """Tiles that need a variable for each axis are refused as it was written, and parts, which do
    not, are slower."""

    def product(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis(terms, name="k")
        return te.compute((512,), lambda j: te.sum(x[k] * w[j, k], axis=k))

    plain = taken(program(product, (terms,), (512, terms)))
    assert taken(program(ops.linear, (1, terms), (512, terms), (512,))) <= 1.1 * plain


@pytest.mark.parametrize("shape", [(65536, 1024), (65536, 64), (1 << 20, 32)])
@pytest.mark.parametrize("sums", [1, 2])
def test_few_long_columns_are_shared_by_all_multiprocessors(shape, sums):
    """Norms and softmax along the first axis: of what reads the array memory alone decides."""
    x = te.placeholder(shape, name="x")
    norm = ops.norm(x, axis=0, name="norm")
    scaled = te.compute(shape, lambda i, j: x[i, j] / norm[j], name="scaled")
    func = te.create_prim_func([x, scaled if sums == 1 else ops.softmax(x, 0)])
    _, sch = scheduled(func)
    works = [w for w in works_of(sch.func, DEVICE) if w.bytes > 4 * shape[0] * shape[1]]
    assert len(works) == sums + 1
    for work in works:
        assert work.blocks >= DEVICE.multiprocessors and work.limit(DEVICE) == "memory"


@pytest.mark.parametrize("sides", [(11, 5), (5, 11)])
def test_results_beside_an_axis_of_one_value_may_have_parts(sides, cache):
    """Its loop stands between those that are one axis of the contraction."""
    x, w = (2, *sides, 64), (5, 5, 64, 20)
    func = program(lambda x, w: ops.conv2d(x, w, layout="NHWC", stride=2), x, w)
    sch, arrays = Schedule(func), numbers(func)
    c = contraction_of(sch, find_groups(sch)[0])
    plans = [counts.plan for counts in tile_plans(c, DEVICE, False)]
    parts = [plan for plan in plans if plan.split > 1]
    assert parts
    for plan in parts:
        library.gpu.make_tiles(made := sch.copy(), c, plan)
    found = build(made, TARGET, cache=cache)(*arrays)
    np.testing.assert_array_equal(found, reference(func, *arrays)[0])
