"""Sums on GPUs have the plan of their terms, whatever is done to their results and wherever their
terms are in memory."""

from __future__ import annotations

import random

import pytest

from autotune import search_space
from autotune.gpu.count import works_of
from autotune.gpu.work import cycles
from autotune.rules import choose
from backends import build
from benchmarks.general.form import numbers, require_close
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))
CHECKED = f"{TARGET} -check=races,uninitialised"


def program(make, *shapes, kind="float32") -> PrimFunc:
    inputs = [te.placeholder(shape, kind, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def scheduled(func: PrimFunc):
    sketch = choose(func, DEVICE, None, ()).sketch
    return [plan.name for plan in sketch.plans], sketch.build(sketch.values())


def right(func: PrimFunc, cache) -> None:
    given = numbers(func)
    found = build(scheduled(func)[1], CHECKED, cache=cache)(*given)
    require_close(func.outputs, [found], list(reference(func, *given)))


SUMS = {
    "rows": ((1,), (512, 1024), (40, 70)),
    "columns": ((0,), (512, 1024), (70, 40)),
    "columns of several axes": ((0, 2), (16, 32, 24, 64), (3, 5, 7, 40)),
    "few_values": ((0, 1), (512, 4096), (40, 70)),
}
AFTER = {
    "nothing": lambda x: x,
    "a function": ops.exp,
    "a factor": lambda x: ops.multiply(x, 0.5),
    "functions": lambda x: ops.sqrt(ops.add(ops.abs(x), 1.0)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_what_is_done_to_sums_changes_nothing_of_their_plan(name, kind):
    axes, shape, _ = SUMS[name]
    plain, time = None, 0.0
    for after, make in AFTER.items():
        func = program(lambda x, make=make: make(ops.sum(x, axes)), shape, kind=kind)
        plans, sch = scheduled(func)
        found = cycles(works_of(sch.func, DEVICE), DEVICE)
        if plain is None:
            plain, time = plans, found
        assert plans == plain, after
        assert found <= 1.05 * time, after


@pytest.mark.parametrize("name", SUMS)
def test_what_is_done_to_sums_is_right(name, cache):
    axes, _, shape = SUMS[name]
    right(program(lambda x: ops.exp(ops.multiply(ops.sum(x, axes), 0.01)), shape), cache)


def diagonal(b: int, n: int, at) -> PrimFunc:
    x, k = te.placeholder((b, n, n), name="x"), te.reduce_axis(n, name="k")
    return te.create_prim_func([x, te.compute((b,), lambda i: te.sum(x[at(i, k, n)], axis=k))])


def column_by_column(b: int, n: int) -> PrimFunc:
    x, k = te.placeholder((n, b, n), name="x"), te.reduce_axis(n, name="k")
    return te.create_prim_func([x, te.compute((b,), lambda i: te.sum(x[k, i, k], axis=k))])


def of_diagonals(b: int, n: int) -> PrimFunc:
    x = te.placeholder((b, n, n), name="x")
    made = te.compute((b, n), lambda i, j: x[i, j, j], name="made")
    return te.create_prim_func([x, ops.softmax(made)])


APART = {
    "traces": lambda b, n: diagonal(b, n, lambda i, k, n: (i, k, k)),
    "from the other corner": lambda b, n: diagonal(b, n, lambda i, k, n: (i, k, n - 1 - k)),
    "matrices beside each other": column_by_column,
    "softmax of diagonals": of_diagonals,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", APART)
def test_of_diagonals_nothing_else_is_read(name, cache):
    """A row of each matrix was copied whole, 64 times as much."""
    b, n = 1024, 256
    works = works_of(scheduled(APART[name](b, n))[1].func, DEVICE)
    passes = 2 if name.startswith("softmax") else 1
    assert sum(work.sectors for work in works) <= 1.2 * passes * b * n
    right(APART[name](9, 40), cache)


RUNNING = {
    "rows": ((512, 1024), 1, (5, 70)),
    "one row": ((1 << 17,), 0, (700,)),
    "rows of any length": ((512, 1001), 1, (5, 71)),
    "columns": ((1024, 512), 0, (30, 40)),
    "in the middle": ((16, 256, 512), 1, (3, 9, 20)),
}


@pytest.mark.parametrize("columns", [512, 1024, 4096, 16384])
@pytest.mark.parametrize("axes", [(0,), (0, 2)])
def test_columns_take_about_as_long_as_rows_however_many_there_are(columns, axes):
    """With too few blocks each waited for its rows, one after the other: half as long again."""
    shape = ((1 << 25) // columns, columns)
    shape = shape if axes == (0,) else (shape[0] // 16, columns, 16)
    times = [
        cycles(works_of(scheduled(program(make, *shapes))[1].func, DEVICE), DEVICE)
        for make, shapes in (
            (lambda x: ops.sum(x, axes), [shape]),
            (lambda x: ops.sum(x, (1,)), [(1 << 15, 1 << 10)]),
        )
    ]
    assert times[0] <= 1.2 * times[1]


BEFORE = {
    "a function": ops.exp,
    "functions": lambda x: ops.sqrt(ops.add(ops.abs(x), 1.0)),
    "what is not negative": ops.relu,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RUNNING)
def test_what_scans_read_is_computed_by_those_that_scan(name, cache):
    """It was written and read once more, by a kernel of its own."""
    shape, axis, few = RUNNING[name]
    plain, sch = scheduled(program(lambda x: ops.cumsum(x, axis), shape))
    least = sum(work.sectors for work in works_of(sch.func, DEVICE))
    for before, make in BEFORE.items():
        plans, sch = scheduled(program(lambda x, make=make: ops.cumsum(make(x), axis), shape))
        assert plans == plain, before
        assert sum(work.sectors for work in works_of(sch.func, DEVICE)) <= 1.01 * least, before
    right(program(lambda x: ops.cumsum(ops.exp(ops.multiply(x, 0.1)), axis), few), cache)


def test_what_others_read_too_is_no_part_of_a_scan(cache):
    x = te.placeholder((9, 70), name="x")
    made = ops.exp(x)
    func = te.create_prim_func([x, ops.add(ops.cumsum(made), made)])
    right(func, cache)
    assert "scan" in scheduled(func)[0]


def embedded(rows: int, words: int, width: int) -> PrimFunc:
    """A norm of rows that are taken from a table, with those of their places added."""
    table, places = te.placeholder((words, width), name="e"), te.placeholder((8, width), name="p")
    at = te.placeholder((rows,), "int32", name="at")
    x = te.compute(
        (rows, width),
        lambda i, j: table[te.clip(at[i], 0, words - 1), j] + places[i % 8, j], name="x",
    )  # fmt: skip
    return te.create_prim_func([table, places, at, ops.layer_norm(x)])


def test_rows_that_memory_says_are_read_once(cache):
    """Where they are cannot be told, so that what is made of them is kept: they were read for each
    sum and for the result."""
    rows, width = 8192, 512
    plans, sch = scheduled(embedded(rows, 4096, width))
    assert plans == ["chain"]
    each = rows * width * 4 // 32
    assert sum(work.sectors for work in works_of(sch.func, DEVICE)) <= 3.1 * each
    right(embedded(19, 7, 40), cache)


@pytest.mark.parametrize("shape", [(4096, 300, 3), (512, 2000, 5), (70, 3000, 61)])
def test_whole_rows_have_threads_by_their_columns_however_many_rows_there_are(shape) -> None:
    """All draws are built: the numbers of other axes were taken for columns, and refused."""
    x = te.placeholder(shape, name="x")
    func = te.create_prim_func([x, ops.sum(x, 1)], name="sums")
    space = search_space(func, "cuda -arch=sm_90a")
    drawn = [space.sample(random.Random(seed)) for seed in range(24)]
    whole = [c for c in drawn if any(v for k, v in space.decisions(c).items() if "whole" in k)]
    assert whole
    for candidate in whole:
        space.build(candidate)
