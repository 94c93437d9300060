"""Sums of which data tell the elements, on GPUs: no thread asks each element for each term."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule, explain, search_space
from autotune.gpu.count import works_of
from backends import build
from schedule import Schedule, ScheduleError, library
from tensorir import Gpu, Target, reference, te
from tests.autotune.test_rules_scattered import PROGRAMS, counted, drawn, taken

TARGET = "cuda -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))
CHECKED = "cuda-emulator -arch=sm_90a -check=races,bounds,counts"


def batched(n=5, terms=300, bins=40):
    """A histogram with weights for each row."""
    x, w = te.placeholder((n, terms), "int32", name="x"), te.placeholder((n, terms), name="w")
    k = te.reduce_axis(terms, name="k")

    def element(i, b):
        return te.sum(te.if_then_else(x[i, k] == b, w[i, k], 0), axis=k)

    return te.create_prim_func([x, w, te.compute((n, bins), element, name="h")])


MOVED = {**PROGRAMS, "batched": batched, "aligned": lambda: taken("int32", 97, "float32", n=3000)}


@pytest.mark.parametrize(("elements", "ahead"), [(40, 1), (1000, 1), (40, 4), (1000, 16)])
@pytest.mark.parametrize("name", MOVED)
def test_each_term_is_added_once(name, elements, ahead, cache):
    """Whatever blocks have: all elements, or a range of them that ends within the last one."""
    func, ends = MOVED[name](), "shares" if name in ("histogram", "image") else None
    sch = Schedule(func)
    few = 40 if name == "long rows" else elements  # of which a block has room for as many
    library.gpu.scattered(sch, "h", parts=3, warps=2, elements=few, ahead=ahead, epilogue=ends)
    inputs, kernel = drawn(func), build(sch, CHECKED, cache=cache)
    found = kernel(*inputs)
    np.testing.assert_allclose(found, reference(func, *inputs)[0], rtol=1e-5, atol=1e-6)
    assert found.tobytes() == kernel(*inputs).tobytes()  # of the same bits in every run


@pytest.mark.parametrize("name", ["short rows", "joint"])
def test_the_interpreter_agrees(name):
    func = MOVED[name]()
    sch = Schedule(func, debug=True)
    library.gpu.scattered(sch, "h", parts=2, warps=2, elements=50)


LARGE = {
    "histogram": lambda: counted((1 << 20,)),
    "floats": lambda: taken("int32", 1000, "float32", n=1 << 20),
    "odd": lambda: taken("int32", 50257, "float32", n=(1 << 20) + 1),
    "long rows": lambda: taken("int32", 1000, "float32", rows=512, n=1 << 14),
    "extremes": lambda: taken(
        "int32", 1000, "float64", reduce=te.max, other=-float("inf"), n=1 << 20
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_defaults(name):
    """Large ones take less than a fourth of the time in which each element is asked for each term,
    of which there are 10^8 to 10^11."""
    func = LARGE[name]()
    sch = default_schedule(func, TARGET)
    assert "scatter" in [step.name for step in sch.trace.instructions]
    found = explain(sch, TARGET)
    asked = func.params[-1].const_shape
    card = 132 * 128 * 1.98e9  # operations in a second
    assert found.seconds < np.prod(asked) * func.params[0].const_shape[0] * 2 / card / 2
    assert not any(kernel.spills for kernel in found.kernels)
    assert all(kernel.conflicts < 1.2 for kernel in found.kernels)


def segments(terms: int, among: int, columns: tuple[int, ...], kind="float32", numbers="int32"):
    """Sums of rows by a number that each of them has."""
    x, of = te.placeholder((terms, *columns), kind, name="x"), te.placeholder((terms,), numbers)
    k = te.reduce_axis(terms, name="k")
    made = lambda i, *c: te.sum(x[(k, *c)], axis=k, where=of[k] == i)  # noqa: E731
    return te.create_prim_func([x, of, te.compute((among, *columns), made, name="h")])


@pytest.mark.parametrize(
    ("terms", "among", "columns", "kind"),
    [(100001, 1001, (65,), "float32"), (16384, 1000, (512,), "float32"),
     (16384, 1000, (16, 32), "float32"), (30000, 77, (129,), "float64"),
     (65536, 500, (96,), "int32")],
)  # fmt: skip
def test_long_rows_are_read_ahead(terms, among, columns, kind):
    """A warp that asked for the row of one term after the other waited 4 to 6 times as long as
    anything else takes."""
    func = segments(terms, among, columns, kind)
    works = works_of(default_schedule(func, TARGET).func, DEVICE)
    limits = max((work.cycles_by_limit(DEVICE) for work in works), key=lambda x: max(x.values()))
    assert limits.pop("latency") <= 1.5 * max(limits.values())


def test_few_elements_of_few_terms_are_asked():
    sch = default_schedule(taken("int32", 2, "float32", n=64), TARGET)
    assert "scatter" not in [step.name for step in sch.trace.instructions]


def test_spaces_say_so():
    space = search_space(LARGE["floats"](), TARGET)
    assert "scattered" in str(space.describe())


def test_refusals():
    sch = Schedule(PROGRAMS["floats"]())
    with pytest.raises(ScheduleError, match="too few"):
        library.gpu.scattered(sch, "h", parts=1)
    x, k = te.placeholder((40,), name="x"), te.reduce_axis(40, name="k")
    plain = te.create_prim_func([x, te.compute((1,), lambda i: te.sum(x[k], axis=k), name="h")])
    with pytest.raises(ScheduleError, match="no data tell"):
        library.gpu.scattered(Schedule(plain), "h")
