"""Recurrences on GPUs whose states one stage alone reads: one kernel, states in registers."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.rules import choose
from backends import build
from benchmarks.general.form import numbers
from schedule import Schedule, ScheduleError
from schedule.library import gpu
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))


def running(axis: int, *shape: int, after=lambda x: x, kind: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, after(ops.cumsum(x, axis))])


def filtered(batches: int, steps: int, channels: int) -> PrimFunc:
    """s[t] = a[t] * s[t - 1] + x[t] of each channel, and a function of it and of x."""
    x, a = (te.placeholder((batches, steps, channels), name=name) for name in "xa")
    s = te.state((steps, batches, channels), name="s")
    first = te.compute((1, batches, channels), lambda t, i, j: x[i, t, j], name="first")
    step = te.compute(
        (steps, batches, channels),
        lambda t, i, j: s[t - 1, i, j] * a[i, t, j] + x[i, t, j], name="step",
    )  # fmt: skip
    h = te.scan(first, step, s, name="h")
    out = te.compute(
        (batches, steps, channels), lambda i, t, j: te.tanh(h[t, i, j]) * x[i, t, j], name="out"
    )
    return te.create_prim_func([x, a, out])


def smoothed(rows: int, steps: int, kind: str = "float32") -> PrimFunc:
    """s[t] = tanh(s[t - 1]) / 2 + x[t] of each row of x: steps follow each other in memory."""
    x, s = te.placeholder((rows, steps), kind, name="x"), te.state((steps, rows), kind, name="s")
    first = te.compute((1, rows), lambda t, i: x[i, t], name="first")
    step = te.compute((steps, rows), lambda t, i: te.tanh(s[t - 1, i]) * 0.5 + x[i, t], name="step")
    return te.create_prim_func([x, te.scan(first, step, s, name="h")])


def planned(func: PrimFunc):
    sketch = choose(func, DEVICE, None, ()).sketch
    return [plan.name for plan in sketch.plans], sketch.build(sketch.values())


LARGE = {
    "the middle axis": running(1, 64, 512, 256),
    "the first one, and a function": running(0, 512, 16384, after=ops.exp),
    "two axes before the last": running(1, 8, 512, 16, 128),
    "halves": running(1, 64, 512, 256, kind="float16"),
    "what does not associate": filtered(16, 512, 1024),
}


@pytest.mark.parametrize("name", LARGE)
def test_states_are_in_no_memory(name):
    """They were written, read by the next step, and read and copied by a kernel after all steps."""
    func = LARGE[name]
    plans, sch = planned(func)
    works = works_of(sch.func, DEVICE)
    assert plans == ["recurrence"] and len(works) == 1
    again = 1.5 if name == "what does not associate" else 1.05  # the last stage reads x as well
    assert sum(work.sectors for work in works) <= again * least_transactions(func, {})


@pytest.mark.parametrize("steps", [512, 511])
def test_steps_side_by_side_are_fetched_by_all_threads(steps):
    """Each lane read a row of its own, a sector for each element: five times the least."""
    func = smoothed(65536, steps)
    _, sch = planned(func)
    works = works_of(sch.func, DEVICE)
    assert sum(work.sectors for work in works) <= 1.75 * least_transactions(func, {})
    assert all(work.wavefronts <= 1.35 * work.free for work in works)


@pytest.mark.parametrize(
    "shape, kind",
    [((37, 61), "float32"), ((1, 40), "float32"), ((130, 7), "float64"), ((300, 131), "float16")],
)
def test_steps_side_by_side_are_right(shape, kind, cache):
    func = smoothed(*shape, kind=kind)
    arrays = [array / 4 for array in numbers(func)]
    kernel = build(planned(func)[1], f"{TARGET} -check=races,uninitialised", cache=cache)
    (wanted,) = reference(func, *arrays)
    near = 1e-3 if kind == "float16" else 1e-5
    np.testing.assert_allclose(kernel(*arrays), wanted, rtol=near, atol=near)


SMALL = {
    "the middle axis": running(1, 3, 37, 5),
    "the first one, and a function": running(0, 19, 37, after=ops.exp),
    "two axes before the last": running(1, 2, 5, 3, 7),
    "two steps": running(0, 2, 3),
    "as many steps as are written out": running(0, 33, 3),
    "one row": running(1, 2, 9, 1),
    "bytes": running(1, 3, 17, 5, kind="int8"),
    "what does not associate": filtered(2, 21, 35),
    "backwards": te.create_prim_func(
        [x := te.placeholder((5, 19, 3), name="x"), ops.cumsum(x, 1, reverse=True)]
    ),
    "what was before": te.create_prim_func(
        [x := te.placeholder((5, 19, 3), name="x"), ops.cumsum(x, 1, exclusive=True)]
    ),
    "turned": running(0, 19, 7, after=ops.transpose),
}


@pytest.mark.parametrize("name", SMALL)
def test_recurrences_with_their_reader_are_right(name, cache):
    func = SMALL[name]
    arrays = [array / 4 if array.dtype.kind == "f" else array for array in numbers(func)]
    kernel = build(planned(func)[1], f"{TARGET} -check=races,uninitialised", cache=cache)
    (wanted,) = reference(func, *arrays)
    np.testing.assert_allclose(kernel(*arrays), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "func, why",
    [
        (SMALL["backwards"], "reads it elsewhere than at its own time"),
        (SMALL["turned"], "stores what follows in time side by side"),
    ],
)
def test_readers_that_stay_are_told(func, why):
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=why):
        gpu.recurrence(sch, "step", reader=str(sch.get_blocks()[-1]))
    assert not sch.trace
