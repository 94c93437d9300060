"""build_cases: one kernel of several schedules, of which its sizes choose."""

from __future__ import annotations

import numpy as np
import pytest

import backends
from schedule import Schedule
from tensorir import TensorIRError, te


def sums(name="sums", buffer="A"):
    n, m, k = te.var("n"), te.var("m"), te.reduce_axis((0, 6), "k")
    a = te.placeholder((n, m, 6), name=buffer)
    b = te.compute((n, m), lambda i, j: te.sum(a[i, j, k], axis=k), name="B")
    return te.create_prim_func([a, b], name=name)


def tiled(func, factor, staged=False):
    schedule = Schedule(func)
    i, j = schedule.get_loops("B")[:2]
    outer, _ = schedule.split(i, [None, factor])
    if staged:  # its memory is of the workspace that all share
        schedule.parallel(outer)
        schedule.cache_write("B", 0, "global")
    return schedule


@pytest.mark.parametrize("names", [("sums", "A"), ("main", "main__case")])
def test_the_first_case_whose_condition_holds_runs(names, cache):
    func = sums(*names)
    n, m = func.size_vars
    cases = [
        ((n >= 3) & (n <= 9), tiled(func, 4)),
        (m > n, tiled(func, 5, staged=True)),
        (n <= 3, tiled(func, 2)),
    ]
    kernel = backends.build_cases(Schedule(func), cases, cache=cache)
    for shape in ((0, 0), (1, 0), (3, 3), (9, 20), (10, 20), (10, 10), (40, 3)):
        a = np.random.default_rng(0).random((*shape, 6), dtype=np.float32)
        np.testing.assert_allclose(kernel(a), a.sum(axis=2), rtol=1e-5)
    assert kernel.source.count("if (") >= len(cases)


def test_without_cases_it_is_the_kernel_of_the_program(cache):
    func = sums()
    assert backends.build_cases(func, [], cache=cache).source == backends.source_text(func)


def test_what_is_refused():
    func, other = sums(), sums("other", "X")
    n, _ = func.size_vars
    for cases, target, message in (
        ([(n < 3, Schedule(other))], "c", "'other' takes other arguments than 'sums'"),
        ([(True, Schedule(func))], "c", "the condition True is none: write one such as n <= 64"),
        ([(n + 1, Schedule(func))], "c", "is none"),
        ([(n < te.var("q"), Schedule(func))], "c", "'q', which is no size of 'sums'; .* n, m"),
        ([(n < 3, Schedule(func))], "opencl", "made for processors, not for 'opencl'"),
        ([(n < 3, 7)], "c", "cannot build 7"),
    ):
        with pytest.raises(TensorIRError, match=message):
            backends.build_cases(func, cases, target)
