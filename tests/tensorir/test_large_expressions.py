"""Expressions that nest deep, or use parts many times: whatever is accepted can be printed, read,
interpreted and compiled, in work that grows with its text."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from autotune import default_schedule
from backends import build, source_text
from schedule import Schedule, ScheduleError
from tensorir import TensorIRError, interpret, parse, reference, te
from tensorir.interning import MOST_DEEP
from tensorir.written import MOST_WRITTEN

STEPS = {
    "polynomial": lambda e, x, n: e * x + 0.25 if n % 2 else e - x,
    "sum": lambda e, x, n: e + x * float(n),
    "call": lambda e, x, n: te.tanh(e),
    "choice": lambda e, x, n: te.select(x > n / 8 - 4.0, e, float(n)),
    "condition": lambda e, x, n: te.select(e > 0.5, 0.25, 0.75) if n % 2 else e,
    "conversion": lambda e, x, n: e.astype("float64" if e.dtype == "float32" else "float32"),
    "largest": lambda e, x, n: te.maximum(x - float(n), e),
}


def program(step, count):
    a = te.placeholder((3, 16), name="A")

    def value(i, j):
        e = a[i, j]
        for n in range(count):
            e = STEPS[step](e, a[i, j], n)
        return e.astype("float32")

    return te.create_prim_func([a, te.compute(a.shape, value, name="B")])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS)
def test_what_is_accepted_goes_all_the_way(step):
    """`choice` took twice the time for each step where lanes choose for themselves."""
    func = program(step, MOST_DEEP * 3 // 5)
    assert str(parse(str(func))) == str(func)
    x = np.linspace(-3, 3, 48, dtype=np.float32).reshape(3, 16)
    expected = reference(func, x)[0]
    found = [interpret(func, x)[0], build(func)(x), build(default_schedule(func))(x)]
    gpu = "cuda-emulator"
    found.append(build(default_schedule(func, gpu), gpu)(x))
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_what_is_too_deep_says_what_to_do():
    with pytest.raises(TensorIRError, match="tensor 'B': more than 180 operations inside"):
        program("call", 2 * MOST_DEEP)


def test_what_doubles_with_each_step_says_what_to_do():
    with pytest.raises(TensorIRError, match="65536 operations, written out.*store a part"):
        a = te.placeholder((4,), name="A")
        te.compute(a.shape, lambda i: squares(a[i], 60))


def squares(e, count):
    for _ in range(count):
        e = e * e + 0.25
    return e


def stages(count):
    a = te.placeholder((3, 16), name="A")
    t = a
    for _ in range(count):
        t = te.compute(a.shape, lambda *i, t=t: te.select(t[i] < 9.0, t[i] + 1.0, 0.0), name="T")
    return te.create_prim_func([a, t])


def joined(target):
    """The default schedule of a chain of stages, of which each reads the one before twice, so that
    the text of one doubles with each that is joined."""
    sch = default_schedule(stages(24), target)
    assert 1 < len(sch.get_blocks()) < 24
    return sch


def assert_right(sch, target):
    x = np.zeros((3, 16), np.float32)
    np.testing.assert_array_equal(build(sch, target)(x), interpret(stages(24), x)[0])


def test_chains_of_stages_are_joined_as_far_as_they_go():
    assert_right(joined("c"), "c")


def test_chains_for_gpus_have_a_text_however_long_and_run_where_they_are_shorter(monkeypatch):
    """g++ takes ten seconds for the longest."""
    gpu = "cuda-emulator"
    longest = joined(gpu)
    assert source_text(longest.func, gpu).count("?") > MOST_WRITTEN / 4
    monkeypatch.setattr(import_module("tensorir.written"), "MOST_WRITTEN", 1 << 12)
    shorter = joined(gpu)
    assert len(shorter.get_blocks()) > len(longest.get_blocks())
    assert_right(shorter, gpu)


def test_joining_too_many_stages_is_refused():
    sch = Schedule(stages(24))
    with pytest.raises(ScheduleError, match="store a part of it first"):
        for block in sch.get_blocks()[:-1]:
            sch.compute_inline(block)
    assert sch.get_blocks()
