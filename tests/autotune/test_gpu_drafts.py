"""Drafts of points of rules for GPUs: what formulas leave out is no better, by the estimate of what
is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from autotune.gpu.count import works_of
from autotune.gpu.work import Work, cycles
from autotune.rules import choose
from autotune.rules.gpu.draft import quickest
from autotune.rules.gpu.move import MovePlan
from autotune.rules.gpu.product import ProductPlan
from autotune.rules.gpu.sums.scattered import scattered_plans
from autotune.rules.group import Group
from schedule import Schedule
from tensorir import Gpu, PrimFunc, Target, TensorIRError, ops, te

GPU = Gpu(Target.parse("cuda -arch=sm_90a"))

BYTES, WAITS = Work(1e5, 256, bytes=1e9), Work(132, 32, rounds=1e4)


@pytest.mark.parametrize(
    ("drafts", "worth"),
    [
        ([[BYTES], [BYTES]], [0]),  # memory surely binds
        ([[WAITS], [BYTES], [BYTES]], [1]),  # multiprocessors wait
        ([[BYTES, BYTES], [BYTES]], [1]),  # all is moved twice
        ([[BYTES, Work(1, 32)], [BYTES]], [0, 1]),  # whether a kernel more matters
        ([[WAITS], [WAITS]], [0, 1]),
        ([], []),
    ],
)
def test_what_formulas_tell_apart(drafts: Any, worth: list[int]) -> None:
    every = list(range(len(drafts)))
    assert quickest(every, drafts, GPU)[:2] == (worth, [n for n in every if n not in worth])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(4097, 4099), (301, 5003), (7, 333, 1001), (1999, 170)])
def test_no_tile_that_formulas_leave_out_is_better(shape: tuple[int, ...], kind: str) -> None:
    """Of arrays whose rows begin within a sector."""
    x = te.placeholder(shape, kind, name="x")
    turned = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    assert_none_is_better(te.create_prim_func([x, ops.transpose(x, turned)], name="f"), 1.02)


def reduced(shape: tuple[int, ...], axis: Any, by: Callable[..., Any], kind: str) -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, by(x, axis=axis)], name="f")


CASES = [
    (shape, axis, by)
    for by in (ops.sum, ops.softmax)
    for shape, axis in [
        ((512, 4096), 1), ((512, 4096), 0), ((4, 100003), 1), ((3001, 63), 1), ((2000, 7), 1),
        ((40, 33, 50), 1), ((9, 1 << 20), 1), ((1 << 20, 9), 0), ((30000, 30), 0),
    ]
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(("shape", "axis", "by"), CASES)
def test_no_point_that_formulas_leave_out_is_better(
    shape: tuple[int, ...], axis: Any, by: Any, kind: str
) -> None:
    """They know sizes alone: rows, columns, few and many, long and short, odd ones."""
    assert_none_is_better(reduced(shape, axis, by, kind), 1.02)


def windows(name: str, shape: tuple[int, ...], kind: str) -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    if name == "pool":
        return te.create_prim_func([x, ops.max_pool2d(x, 3, 2)], name="f")
    layout, of = ("NHWC", (5, 5, 1, shape[3])) if name == "last" else ("NCHW", (shape[1], 1, 5, 5))
    w = te.placeholder(of, kind, name="w")
    out = ops.depthwise_conv2d(x, w, padding=2, layout=layout)
    return te.create_prim_func([x, w, out], name="f")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "shape", "alone"),
    [
        ("pool", (32, 64, 113, 113), True), ("pool", (61, 16, 7, 241), False),
        ("first", (32, 128, 57, 57), False), ("last", (32, 56, 56, 128), False),
        ("pool", (9, 3, 31, 57), False),
    ],
)  # fmt: skip
def test_no_box_that_formulas_leave_out_is_better(
    name: str, shape: tuple[int, ...], alone: bool, kind: str
) -> None:
    """They know what boxes read and store; where memory surely binds one of them is made."""
    (plan,) = assert_none_is_better(windows(name, shape, kind), 1.05)
    assert len(plan.likely) == 1 or not alone


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("first", (3, 2, 34, 11)), ("first", (5, 64, 9, 5)), ("first", (3, 4, 7, 203)),
        ("last", (1, 37, 29, 11)), ("pool", (7, 2, 67, 50)), ("pool", (16, 5, 63, 109)),
    ],
)  # fmt: skip
def test_points_that_are_not_made_take_no_less(
    name: str, shape: tuple[int, ...], kind: str
) -> None:
    """Formulas tell what each point takes at least, and so which need not be made."""
    (plan,) = choose(windows(name, shape, kind), GPU, None).sketch.plans
    assert isinstance(plan, MovePlan)
    chosen, times = plan.cycles(plan.default()), list[float]()
    for point, bound in zip(plan.likely, plan.bounds):
        with suppress(TensorIRError):
            times.append(plan.cycles({plan.key(key): value for key, value in point.items()}))
            assert bound <= 1.01 * times[-1], point
    assert chosen <= plan.close * min(times)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("terms", "elements", "columns"),
    [
        (1 << 20, 256, 0), ((1 << 18) + 1, 1000, 0), (5000, 50257, 0), (1 << 16, 30, 3),
        (1 << 14, 1000, 512), (3000, 97, 33), (4096, 20000, 64), (300, 40, 8),
    ],
)  # fmt: skip
def test_points_of_scattered_sums_that_are_not_made_take_no_less(
    terms: int, elements: int, columns: int, kind: str
) -> None:
    """Whether all elements or a range of them, whether lanes have terms or results side by side."""
    base = Schedule(scattered(terms, elements, columns, kind))
    for plan in scattered_plans(base, Group("h"), GPU):
        assert isinstance(plan, MovePlan)
        chosen = plan.cycles(plan.default())
        drafted = dict(zip(map(str, plan.likely), plan.bounds))
        for point in (*plan.likely, *plan.otherwise):
            time = plan.cycles({plan.key(key): value for key, value in point.items()})
            assert drafted.get(str(point), 0.0) <= 1.01 * time, point
            assert chosen <= 1.02 * time, point


def scattered(terms: int, elements: int, columns: int, kind: str) -> PrimFunc:
    """Terms, each for an element that data tell; rows of terms where there are columns."""
    at = te.placeholder((terms,), "int32", name="at")
    x = te.placeholder((terms, columns) if columns else (terms,), kind, name="x")
    k = te.reduce_axis(terms, name="k")

    def element(i: te.Var, *j: te.Var) -> te.Expr:
        return te.sum(te.if_then_else(at[k] == i, x[(k, *j)], 0), axis=k)

    shape = (elements, columns) if columns else (elements,)
    return te.create_prim_func([at, x, te.compute(shape, element, name="h")], name="f")


def test_of_scattered_sums_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = list[Any](), MovePlan._make
    monkeypatch.setattr(
        MovePlan, "_make", lambda plan, sch, point: (made.append(point), make(plan, sch, point))
    )
    for terms, elements, columns in [(1 << 24, 256, 0), (1 << 14, 1000, 512)]:
        choose(scattered(terms, elements, columns, "float32"), GPU, None)
    assert len(made) == 2


def test_of_boxes_few_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, made = list[Any](), list[Any]()
    make, best = MovePlan._make, MovePlan._best_of
    monkeypatch.setattr(
        MovePlan, "_make", lambda plan, sch, point: (made.append(point), make(plan, sch, point))
    )
    monkeypatch.setattr(
        MovePlan, "_best_of", lambda plan, *args: (tried.extend(args[0]), best(plan, *args))[1]
    )
    for shape in [(3, 4, 7, 203), (5, 64, 9, 5), (3, 2, 34, 11)]:
        choose(windows("first", shape, "float32"), GPU, None)
    assert len(made) <= len(tried) // 2


def test_of_parts_of_variables_tiles_are_made_on_axes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of groups of channels: of the program as it was written none are."""
    made, make = list[Any](), ProductPlan._make
    monkeypatch.setattr(ProductPlan, "_make", lambda *args: made.append(args[1]) or make(*args))
    x, w = te.placeholder((2, 16, 10, 10), name="x"), te.placeholder((16, 4, 3, 3), name="w")
    choose(te.create_prim_func([x, w, ops.conv2d(x, w, groups=4)], name="f"), GPU, None)
    assert len(made) == 1


def test_boxes_whose_threads_lack_registers_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 28 rows and what they read are more than 512 threads of a block can have."""
    x = te.placeholder((32, 56, 56, 128), name="x")
    w = te.placeholder((3, 3, 1, 128), name="w")
    out = ops.depthwise_conv2d(x, w, padding=1, layout="NHWC")
    made = list[Any]()
    make = MovePlan._make
    monkeypatch.setattr(
        MovePlan, "_make", lambda plan, sch, point: (made.append(point), make(plan, sch, point))
    )
    choose(te.create_prim_func([x, w, out], name="f"), GPU, None)
    assert len(made) == 1


def assert_none_is_better(func: PrimFunc, close: float) -> Sequence[MovePlan]:
    """The plans of the default, no other point of which takes less time, by some times."""
    sketch, found = choose(func, GPU, None).sketch, []
    chosen = cycles(works_of(sketch.build(sketch.values()).func, GPU), GPU)
    for plan in sketch.plans:
        assert isinstance(plan, MovePlan)
        found.append(plan)
        for point in plan.otherwise:
            try:
                other = plan.cycles({plan.key(name): value for name, value in point.items()})
            except TensorIRError:
                continue
            assert chosen <= close * other, point
    return found
