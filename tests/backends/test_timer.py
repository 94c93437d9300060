from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from backends import Timing, compare, interleave, measure
from backends.call.timer import calibrate, format_seconds
from tensorir import Buffer, PrimFunc, Store, TensorIRError, Var, const

N = Var("n")


class Fake:
    """A timer whose clock is a list of seconds per call; it records what was asked of it."""

    def __init__(self, *per_call: float, log: list | None = None) -> None:
        self._times = itertools.cycle(per_call)
        self.asked: list[int] = []
        self._log = [] if log is None else log

    def timer(self, *args):
        return self.seconds

    def seconds(self, calls: int) -> float:
        self.asked.append(calls)
        self._log.append(self)
        return next(self._times) * calls


def test_figures_of_a_timing():
    timing = Timing((4.0, 1.0, 3.0, 2.0, 100.0), 7)
    assert (timing.median, timing.min) == (3.0, 1.0)
    assert timing.interval == (1.0, 100.0), "five blocks have no 95 % interval: their range"


def test_interval_of_the_median_is_that_of_the_binomial_table():
    # Published ranks (1-based) of the 95 % interval: n=10: 2 and 9, n=20: 6 and 15.
    for count, low, high in ((6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
        assert Timing(tuple(map(float, range(1, count + 1))), 1).interval == (low, high)


def test_interval_covers_the_median_of_skewed_times():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        low, high = Timing(tuple(rng.exponential(size=15)), 1).interval
        hits += low <= math.log(2) <= high
    assert hits / 400 > 0.93


def test_repr_has_unit_spread_and_protocol():
    timing = Timing((1.22e-3,) * 5 + (1.234e-3,) * 10 + (1.25e-3,) * 5, 4)
    assert repr(timing) == "1.234 ms +- 0.0 %  (20 blocks of 4 calls)"
    assert [format_seconds(s) for s in (2.0, 1e-3, 12.3456e-6, 5e-9, 0.0)] == [
        "2 s",
        "1 ms",
        "12.35 us",
        "5 ns",
        "0 ns",
    ]


def test_calibration_fills_the_block():
    fake = Fake(1e-5)
    calls = calibrate(fake.seconds, min_ms=5)
    assert 500 <= calls <= 1000
    assert fake.asked == sorted(fake.asked)
    assert calibrate(Fake(1.0).seconds, min_ms=5) == 1
    assert calibrate(Fake(0.0, 1e-3).seconds, min_ms=5) >= 5, "a clock that stands still at first"


def test_measure_keeps_every_block_and_stops_in_time():
    timing = measure(Fake(1.0, 3.0, 2.0).seconds, repeats=6, min_ms=1)
    assert timing == Timing((3.0, 2.0, 1.0, 3.0, 2.0, 1.0), 1)
    assert len(measure(Fake(1.0).seconds, repeats=6, limit_s=0).times) == 1


def test_interleave_takes_turns_in_changing_order():
    log: list = []
    a, b = Fake(1.0, log=log), Fake(2.0, log=log)
    first, second = interleave([a, (b, "argument")], rounds=20, min_ms=1)
    assert first.times == (1.0,) * 20
    assert second.times == (2.0,) * 20
    rounds = [log[i : i + 2] for i in range(2, len(log), 2)]
    assert all(set(pair) == {a, b} for pair in rounds)
    assert {pair[0] for pair in rounds} == {a, b}


def test_interleave_times_functions():
    seen: list = []
    (timing,) = interleave([(seen.append, 1)], rounds=3, min_ms=0.1)
    assert len(timing.times) == 3
    assert len(seen) > 3 * timing.calls
    with pytest.raises(TensorIRError, match="3 cannot be timed; pass a kernel"):
        interleave([3])


def test_compare_pairs_the_rounds():
    drift = np.linspace(1.0, 2.0, 30)  # the machine slows down while both are measured
    a, b = Timing(tuple(1.1 * drift), 1), Timing(tuple(drift), 1)
    result = compare(a, b)
    assert result.ratio == pytest.approx(1.1)
    assert result.low == pytest.approx(1.1)
    assert result.high == pytest.approx(1.1)


def test_compare_of_equals_is_undecided_and_repeatable():
    rng = np.random.default_rng(1)
    a, b = (Timing(tuple(1 + 0.1 * rng.random(n)), 1) for n in (20, 25))
    result = compare(a, b)
    assert result.low < 1 < result.high
    assert result == compare(a, b)
    assert repr(compare(a, a)) == "1.000 x  [1.000, 1.000]"


def test_a_protocol_without_blocks_is_refused():
    with pytest.raises(TensorIRError, match="0 blocks of 5"):
        measure(Fake(1.0).seconds, repeats=0)
    with pytest.raises(TensorIRError, match="20 blocks of 0 ms"):
        interleave([Fake(1.0)], min_ms=0)


@pytest.fixture(scope="module")
def dawdle(compile_text):
    """Adds to C[0] what it is told in A[0], after some microseconds."""
    a, c = Buffer("A", (N,), "float32"), Buffer("C", (1,), "float32")
    func = PrimFunc("dawdle", (a, c), (), Store(c, (const(0),), a[0]))
    return compile_text(
        func,
        "int dawdle(const float *a, float *c, long long n) {\n"
        "  for (volatile int i = 0; i < 20000; i++);\n  c[0] += a[0];\n  return 0;\n}\n",
    )


def test_kernels_are_timed_in_compiled_code(dawdle):
    a, c = np.ones(1, np.float32), np.zeros(1, np.float32)
    timing = dawdle.time(a, c, repeats=3, min_ms=0.5)
    assert len(timing.times) == 3
    assert timing.min > 1e-6, "20000 steps cannot be faster"
    assert c[0] >= 3 * timing.calls
    assert len(dawdle.time(a, repeats=2, min_ms=0.5).times) == 2
    assert len(dawdle.time(repeats=2, min_ms=0.5, sizes={"n": 3}).times) == 2
    one, other = interleave([(dawdle, a), lambda: dawdle(a)], rounds=2, min_ms=0.5)
    assert (len(one.times), len(other.times)) == (2, 2)


def test_timing_checks_its_arguments(dawdle):
    with pytest.raises(TensorIRError, match="'A' \\(0\\) has dtype float64"):
        dawdle.time(np.ones(1))
    with pytest.raises(TensorIRError, match="3 arguments given"):
        dawdle.time(1, 2, 3)
    with pytest.raises(TensorIRError, match=r"the sizes n are not known; .*sizes=\{'n': 128\}"):
        dawdle.time()
    with pytest.raises(TensorIRError, match="has no sizes m; it has"):
        dawdle.time(sizes={"n": 1, "m": 2})
