"""What steps of this processor cost: measured in seconds, kept, and used only when asked for."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from autotune import default_schedule, doctor, search_space, tune
from autotune.calibration import measure, stored
from autotune.calibration.measure import Measured, believed, derived, measure_costs
from autotune.calibration.programs import probes
from autotune.calibration.stored import FILE, calibrate, costs_of, known_costs
from autotune.errors import MeasureError
from backends import Timing, resolve
from tensorir import (
    Costs,
    Cpu,
    Target,
    TensorIRError,
    interpret,
    ops,
    reference,
    te,
    usual_costs,
)
from tests.brief import BRIEF

SMALL = Cpu(
    Target(vector_bits=256, threads=2, features=("fma",), l1d=1 << 12, l2=1 << 14, l3=1 << 15)
)
NAMES = {f.name for f in fields(Costs)}
USUAL = usual_costs(resolve("c").features)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path))


@pytest.fixture
def quick(monkeypatch):
    """A few short blocks, of arrays that take no time to fill."""
    monkeypatch.setattr(measure, "ROUNDS", 3)
    monkeypatch.setattr(measure, "BLOCK_MS", 0.05)
    monkeypatch.setattr("autotune.calibration.programs.LEAST_MEMORY", 1 << 18)
    monkeypatch.setattr("autotune.calibration.programs.MOST_MEMORY", 1 << 18)


def small_probes(monkeypatch):
    monkeypatch.setattr("autotune.calibration.programs.LEAST_MEMORY", 1 << 15)
    monkeypatch.setattr("autotune.calibration.programs.MOST_MEMORY", 1 << 15)
    return dict(probes(SMALL))


def test_the_programs_compute_what_they_say(monkeypatch):
    rng = np.random.default_rng(0)
    for name, probe in small_probes(monkeypatch).items():
        if "memory" in name:
            continue  # the same as other lines
        inputs = [rng.integers(0, 3, p.const_shape).astype(p.dtype) for p in probe.func.inputs]
        (found,) = interpret(probe.func, *inputs)
        meant = probe.schedule.copy()
        while meant.trace.instructions:
            meant.undo()
        np.testing.assert_array_equal(found, reference(meant.func, *inputs)[0], err_msg=name)


def cycles(monkeypatch, **given: float) -> Measured:
    """What is derived from programs that take so many cycles each time, at 2 GHz."""
    known = small_probes(monkeypatch)
    usual = {"clock": 1, "units": 0.5, "loads": 0.6, "latency": 4, "l1 lines": 0.8, "l2 lines": 2,
             "l3 lines": 5, "memory lines": 20, "memory lines, one thread": 9, "packed": 0.5,
             "packed, turned": 1.5, "turned": 3, "parallel": 4000}  # fmt: skip
    each = {**usual, **given}
    timings = {n: Timing((0.5e-9 * each[n] * p.count,), 1) for n, p in known.items()}
    return derived(SMALL, known, timings, 0.5e-9 * each["parallel"])


def test_times_become_cycles(monkeypatch):
    found = cycles(monkeypatch)
    assert set(found.costs) <= NAMES
    hidden = SMALL.costs.hidden
    expected = {
        "units": 1.0, "ports": 0.5 / 0.4, "latency": 4.0, "start": 4000.0, "copy": 0.5,
        "copy_turned": 1.5, "l2": 2 - (1 - hidden) * 0.8, "l3": 3.0, "memory": 15.0,
        "transpose": 3 - SMALL.costs.sum_,
    }  # fmt: skip
    assert found.costs == pytest.approx(expected)
    assert found.others["GHz"] == pytest.approx(2.0)
    assert found.applied(Costs()) == replace(Costs(), **found.costs)


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_instructions_take_as_long_as_was_measured(bits, monkeypatch):
    """Units and ports are of 64 bytes, whatever a processor's vectors have."""
    monkeypatch.setitem(globals(), "SMALL", Cpu(replace(SMALL.target, vector_bits=bits)))
    cpu, found = SMALL, cycles(monkeypatch, **{"l1 lines": 4}).costs
    assert (cpu.vector / found["units"], cpu.vector / found["ports"]) == pytest.approx((0.5, 0.6))


def test_no_line_comes_faster_from_farther_away(monkeypatch):
    found = cycles(monkeypatch, **{"l3 lines": 50, "l2 lines": 60}).costs
    assert found["l2"] + found["l3"] + found["memory"] == pytest.approx(
        20 - (1 - SMALL.costs.hidden) * 0.8, abs=0.01
    )


def test_what_is_measured_is_what_is_read_back(monkeypatch):
    """A noisy machine may say that memory is nearer for one thread than the last cache."""
    found = cycles(monkeypatch, **{"l3 lines": 50, "memory lines, one thread": 9})
    assert all(map(believed, (*found.costs.values(), *found.others.values())))


@pytest.mark.parametrize("what", [{"latency": float("nan")}, {"units": 1e-12}, {"packed": -1.0}])
def test_times_that_make_no_sense_are_refused(what, monkeypatch):
    with pytest.raises(MeasureError, match="costs .* cannot be measured: .*cycles make no sense"):
        cycles(monkeypatch, **what)


def test_a_processor_of_one_thread_starts_none():
    alone = Cpu(replace(SMALL.target, threads=1))
    known = dict(probes(alone))
    timings = {name: Timing((1e-9 * (9 + p.count),), 1) for name, p in known.items()}
    assert derived(alone, known, timings, 0.0).costs["start"] == alone.costs.start


def test_this_machine_is_measured(quick):
    found = measure_costs(resolve("c -threads=1 -l1d=8192 -l2=65536 -l3=131072"))
    assert set(found.costs) <= NAMES
    assert 0.3 < found.others["GHz"] < 12, "the chain is one of dependent operations"
    assert 1.5 < found.costs["latency"] < 100 and 0.01 < found.costs["units"] < 8


class Starting:
    """A kernel of which some blocks are disturbed, and others find threads that still wait."""

    def timer(self, *arrays):
        seconds = iter([9e-3, *[1e-6, 2e-6, 2e-6, 2e-6, 5e-3] * 40])
        return lambda calls: calls * next(seconds)


def test_threads_start_as_fast_as_they_usually_do():
    assert measure.start_seconds(Starting()) == pytest.approx(2e-6)


FOUND = Measured({"units": 1.5, "start": 4000.0}, {"GHz": 2.0})


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(stored, "measure_costs", lambda target: FOUND)


def test_costs_are_kept_for_all_numbers_of_threads(measured):
    assert known_costs() == (None, "")
    calibrate()
    assert known_costs("c -threads=1 -l2=4096") == (FOUND, "")
    assert known_costs("c -vector_bits=128")[0] is None
    assert costs_of("measured", resolve("c")) == replace(USUAL, units=1.5, start=4000.0)


BAD = [
    "", "{", "[]", '{"a": 5}', "\x00", "null",
    '{KEY: 5}', '{KEY: {}}', '{KEY: {"costs": {"units": "x"}, "others": {}}}',
    '{KEY: {"costs": {"units": -1}, "others": {}}}',
    '{KEY: {"costs": {"nobody": 1}, "others": {}}}',
    '{KEY: {"costs": {"units": NaN}, "others": {}}}', '{KEY: {"costs": {}, "others": {}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_damaged_file_is_the_same_as_none(text, measured):
    """It is said what is wrong where something is; the next calibration replaces it."""
    key = stored._key(stored._plain("c"))
    FILE.path.parent.mkdir(parents=True, exist_ok=True)
    FILE.path.write_text(text.replace("KEY", json.dumps(key)))
    found, word = known_costs()
    assert found is None
    assert str(FILE.path) in word
    with pytest.warns(UserWarning, match="defaults are used"):
        assert costs_of("measured", resolve("c")) == USUAL
    assert doctor.costs(False).level == "warn"
    calibrate()
    assert known_costs() == (FOUND, "")


def test_costs_of_another_machine_are_not_used(measured, monkeypatch):
    calibrate()
    monkeypatch.setattr(
        "autotune.machine.measured_file.this_machine", lambda: SimpleNamespace(key="x")
    )
    assert known_costs() == (None, "")


def _calibrate(number: int) -> None:
    stored.measure_costs = lambda target: Measured({"units": float(number + 1)}, {})
    for _ in range(20):
        calibrate()
        assert known_costs()[0] is not None


def test_processes_calibrate_at_once():
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_calibrate, args=(n,)) for n in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0, 0]
    found, word = known_costs()
    assert word == "" and found.costs["units"] in (1.0, 2.0)
    assert [path.name for path in FILE.path.parent.glob("*costs*")] == [FILE.name]


def test_a_folder_that_cannot_be_written_costs_a_calibration(measured, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.machine.measured_file.os.replace", _full)
    calibrate()
    assert known_costs() == (None, "")
    assert not list(FILE.path.parent.glob(".costs*"))


def _full(*_):
    raise OSError("no room")


@pytest.mark.parametrize(("share", "level"), [(0.6, "warn"), (0.01, "ok"), (None, "ok")])
def test_a_calibration_beside_other_programs_says_so(share, level, quick, monkeypatch):
    """It was kept as any other, with lines from memory that cost nothing beside those of caches
    that the others had emptied."""
    monkeypatch.setattr(measure, "derived", lambda *_: FOUND)
    parallel = ("parallel", small_probes(monkeypatch)["parallel"])
    monkeypatch.setattr(measure, "probes", lambda cpu: [parallel])
    monkeypatch.setattr(measure.Neighbours, "share", lambda _: share)
    check = doctor.costs(True)
    assert check.level == level
    assert ("60% of the processors" in check.text) == bool(check.remedy) == (level == "warn")
    assert doctor.costs(False) == check


def test_doctor_shows_them_beside_the_defaults(measured):
    assert doctor.costs(False).text.startswith("not measured")
    shown = doctor.costs(True).text
    assert f"units 1.5 ({USUAL.units:g})" in shown and "GHz 2" in shown
    assert doctor.costs(False).text == shown


def test_doctor_says_that_the_machine_was_busy(monkeypatch):
    def busy(target):
        raise MeasureError("no sense")

    monkeypatch.setattr(stored, "measure_costs", busy)
    check = doctor.costs(True)
    assert check.level == "warn" and "idle" in check.remedy


def test_they_decide_only_where_they_are_asked_for(measured):
    """A default schedule is the same on every machine of a target."""
    func, target = ops.prim_func("conv2d", 0), "c -vector_bits=256 -threads=2"
    before = default_schedule(func, target).trace
    calibrate(target)
    assert default_schedule(func, target).trace == before
    assert default_schedule(func, target, costs=USUAL).trace == before
    default_schedule(func, target, costs="measured")
    with pytest.raises(TensorIRError, match="costs 'guessed' are not known; give 'measured'"):
        default_schedule(func, target, costs="guessed")


def test_a_search_takes_them_where_it_is_asked_to(pretended, measured, monkeypatch):
    """Its space and its first trial are made with them."""
    rate = replace(FOUND, costs={"start": 0.1})
    monkeypatch.setattr(stored, "measure_costs", lambda target: rate)
    x, w = te.placeholder((32, 32), name="x"), te.placeholder((32, 32), name="w")
    func = te.create_prim_func([x, w, ops.matmul(x, w)], name="product")
    target = "c -threads=2"
    calibrate(target)

    def first(costs):
        return tune(func, target, 1, database=None, settings=BRIEF, costs=costs)

    made = {}
    for costs in ("measured", None):
        made[costs] = str(default_schedule(func, target, numerics="mixed", costs=costs).func)
        assert str(first(costs).schedule.func) == made[costs]
    assert made["measured"] != made[None]
    texts = [str(search_space(func, target, costs=c).describe()) for c in ("measured", None)]
    assert texts[0] != texts[1]
    with pytest.raises(TensorIRError, match="costs 'guessed' are not known; give 'measured'"):
        first("guessed")


def test_dear_threads_are_not_started():
    a, w = te.placeholder((16, 62)), te.placeholder((32, 16, 3))
    s, r = te.reduce_axis(16), te.reduce_axis(3)
    best = te.compute((32, 60), lambda p, q: te.max(a[s, q + r] + w[p, s, r], axis=[s, r]))
    func = te.create_prim_func([a, w, best])
    target = "c -vector_bits=256 -threads=2"

    def parallel(costs: Costs) -> bool:
        trace = default_schedule(func, target, costs=costs).trace
        return any(step.name == "parallel" for step in trace.instructions)

    assert parallel(replace(Costs(), start=0.0)) and not parallel(replace(Costs(), start=1e12))


def test_a_gpu_has_none():
    with pytest.raises(TensorIRError, match="costs are those of processors"):
        known_costs("cuda -arch=sm_80")
