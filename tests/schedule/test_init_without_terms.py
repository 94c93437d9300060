"""A sum without terms has its first value in all elements: what its loops tell of sizes, if they
run, says nothing of the init."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import ExprLike, PrimFunc, interpret, te

n = te.var("n")
SIZES = {
    "max(n, 3) of n // 3": (te.max(n, 3), n // 3),
    "max(n, 3) of n - 2": (te.max(n, 3), n - 2),
    "min(n, 3) + 1 of n // 3": (te.min(n, 3) + 1, n // 3),
    "max(n, 4) of n // 4": (te.max(n, 4), n // 4),
    "max(n, 2) of none": (te.max(n, 2), 0),
}
"""Elements, and terms: where there is one, the number of elements is a simpler expression."""


def rows(elements: ExprLike, terms: ExprLike) -> PrimFunc:
    a, k = te.placeholder((n,), name="A"), te.reduce_axis(terms, name="k")
    term = te.if_then_else(k < n, a[k], te.const(0, "float32"))
    c = te.compute((elements, 5), lambda i, j: te.sum(term + i + j, axis=k), name="C")
    d = te.compute((elements, 5), lambda i, j: c[i, j] + 1.0, name="D")
    return te.create_prim_func([a, d], name="rows")


STEPS: dict[str, Callable[[Schedule], object]] = {
    "split": lambda sch: sch.split("i", [None, 4]),
    "split twice": lambda sch: sch.split(sch.split("i", [None, 4])[1], [None, 3]),
    "split in parts": lambda sch: sch.split("i", [4, None]),
    "fuse": lambda sch: sch.fuse("i", "j"),
    "split what is fused": lambda sch: sch.split(sch.fuse("i", "j"), [None, 4]),
    "partition": lambda sch: sch.partition("i", [None, 2]),
    "shift": lambda sch: sch.shift("i", 1),
    "compute_at": lambda sch: sch.compute_at("C", sch.split("i_D", [None, 4])[0]),
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("D", sch.split("i", [None, 4])[0]),
    "decompose": lambda sch: sch.decompose_reduction("C", sch.split("i", [None, 4])[0]),
    "merge": lambda sch: sch.merge(sch.split("i", [None, 4])[0], sch.split("i_D", [None, 4])[0]),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sizes", SIZES)
def test_each_element_starts(sizes, step):
    func = rows(*SIZES[sizes])
    sch = Schedule(func)
    STEPS[step](sch)
    for size in (0, 1, 2, 3, 4, 5, 9):
        a = np.arange(size, dtype="float32")
        assert np.array_equal(interpret(sch.func, a)[0], interpret(func, a)[0])


@pytest.mark.parametrize("sizes", SIZES)
def test_default_schedules_start_each_element(sizes):
    func = rows(*SIZES[sizes])
    kernel = build(default_schedule(func))
    for size in (1, 2, 3, 9):
        a = np.arange(size, dtype="float32")
        assert np.array_equal(kernel(a), interpret(func, a)[0])
