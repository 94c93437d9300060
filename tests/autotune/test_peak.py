"""The machine's peaks: positive, remembered, forgotten on demand."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from autotune.calibration import peak
from autotune.calibration.peak import known_peaks, memory_gbps, peak_gflops
from autotune.calibration.roofline import Share, argument_bytes, share_of_peak
from autotune.examples import make_example
from backends import resolve
from tensorir import TensorIRError, ops, te


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path))
    monkeypatch.setattr(peak, "machine_lock", nullcontext)
    monkeypatch.setattr(peak, "ROUNDS", 2000)
    monkeypatch.setattr(peak, "BLOCKS", 5)
    monkeypatch.setattr(peak, "BLOCK_MS", 0.1)
    monkeypatch.setattr(peak, "READ_BYTES", (1 << 20, 1 << 20))


def test_a_peak_is_measured_once(tmp_path, monkeypatch):
    first = peak_gflops(1)
    assert 0.5 < first < 10_000
    monkeypatch.setattr(peak, "_flops", lambda *_: 1.0)
    assert peak_gflops(1) == first
    assert peak_gflops(1, calibrate=True) == 1.0
    assert peak_gflops(1) == 1.0
    assert known_peaks() == [("gflops float32 1", 1.0)]


def test_each_dtype_and_number_of_threads_has_its_peak(monkeypatch):
    monkeypatch.setattr(peak, "_flops", lambda threads, dtype, _: threads + len(dtype) / 100)
    assert peak_gflops(1, "float32") != peak_gflops(2, "float32")
    assert peak_gflops(3, "float64") == 3.07


def test_threads_of_the_target_count_where_none_are_given(monkeypatch):
    monkeypatch.setattr(peak, "_flops", lambda threads, *_: float(threads))
    assert peak_gflops(target="c -threads=3") == 3.0
    assert peak_gflops(2, target="c -threads=3") == 2.0


def test_memory_rate():
    assert 0.1 < memory_gbps(1) < 10_000
    assert [what for what, _ in known_peaks()] == ["gbps 1"]


def test_float64_runs():
    assert peak_gflops(1, "float64") > 0.5


def test_a_damaged_file_is_measured_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(peak, "_flops", lambda *_: 5.0)
    (peak.FILE.path).write_text("{ torn")
    assert peak_gflops(1) == 5.0
    assert len(json.loads((peak.FILE.path).read_text())) == 1


def test_a_dtype_without_a_peak_is_refused():
    with pytest.raises(TensorIRError, match="no peak for dtype 'float16'; there is one for float"):
        peak_gflops(dtype="float16")


def test_zero_threads_are_refused():
    with pytest.raises(TensorIRError, match="threads must be at least 1"):
        peak_gflops(0)


def test_share_of_the_bound_that_is_nearer(monkeypatch):
    func = make_example("elementwise", {"size": 1 << 26})
    target = resolve("c")
    monkeypatch.setattr(peak, "_flops", lambda *_: 100.0)
    monkeypatch.setattr(peak, "_gbps", lambda *_: 20.0)
    moved = argument_bytes(func)
    assert moved == 5 * 4 << 26
    found = share_of_peak(func, moved / 10e9, target)
    assert found == Share(pytest.approx(10.0), 20.0, "GB/s")
    assert str(found) == "10.0 GB/s, 50% of this machine's 20"


def test_arithmetic_bounds_what_fits_into_the_caches(monkeypatch):
    monkeypatch.setattr(peak, "_flops", lambda *_: 100.0)
    func = make_example("matmul", {"m": 16, "n": 16, "k": 16})
    found = share_of_peak(func, 2 * 16**3 / 50e9, resolve("c"))
    assert found == Share(pytest.approx(50.0), 100.0, "GFLOP/s")


@pytest.mark.parametrize(("kind", "known"), [("float32", True), ("bfloat16", False)])
def test_products_of_narrow_floats_have_no_peak(monkeypatch, kind, known):
    """Instructions for them are many times faster; a search that is told that it has reached the
    peak of float32 would end."""
    monkeypatch.setattr(peak, "_flops", lambda *_: 100.0)
    a, b = (te.placeholder((16, 16), kind, name=name) for name in "ab")
    func = te.create_prim_func([a, b, ops.matmul(a, b, out_dtype="float32", name="c")])
    assert (share_of_peak(func, 1e-6, resolve("c")) is not None) == known


def test_a_kernel_above_its_peak_calibrates_again(monkeypatch):
    peaks = iter([10.0, 100.0])
    monkeypatch.setattr(peak, "_flops", lambda *_: next(peaks))
    func = make_example("matmul", {"m": 16, "n": 16, "k": 16})
    found = share_of_peak(func, 2 * 16**3 / 50e9, resolve("c"))
    assert found is not None and found.peak == 100.0


def test_no_share_of_symbolic_sizes():
    n = te.var("n")
    a = te.placeholder((n,), "float32", name="a")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="b")], name="f")
    assert share_of_peak(func, 1.0, resolve("c")) is None
