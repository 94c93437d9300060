"""The doctor finds what is wrong, and says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import backends
from autotune import doctor
from autotune.cli import main
from autotune.database.database import Database
from backends import BuildError, Software

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "cache"))


def named(name: str, checks: list[doctor.Check]) -> doctor.Check:
    return next(check for check in checks if check.name == name)


def test_nothing_essential_is_missing_here(tmp_path):
    checks = list(doctor.examine(str(tmp_path / "new.db")))
    assert [c for c in checks if c.level == "fail"] == []
    assert {"python", "packages", "numpy", "compiler", "openmp", "cpu", "cache"} <= {
        c.name for c in checks
    }
    assert named("openmp", checks).level == "ok" or named("openmp", checks).remedy
    assert not (tmp_path / "new.db").exists()


def test_no_compiler(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["doctor", "--database", str(tmp_path / "new.db")]) == 1
    out = capsys.readouterr().out
    assert "fail  compiler" in out
    assert "-> install gcc or clang" in out


def test_a_cross_compiler(monkeypatch):
    def missing(target):
        raise BuildError("none")

    assert doctor.cross_compiler().level == "ok"
    monkeypatch.setattr(backends, "compiler_info", missing)
    assert "no compiler for -march=" in doctor.cross_compiler().text


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "sklearn" else 1)
    check = named("sklearn", list(doctor.other_packages()))
    assert check.level == "warn"
    assert check.remedy == "pip install scikit-learn"


def test_json(capsys, tmp_path):
    assert main(["doctor", "--json", "--database", str(tmp_path / "new.db")]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert set(checks[0]) == {"name", "level", "text", "remedy"}


def test_a_damaged_database(tmp_path):
    path = tmp_path / "bad.db"
    path.write_text("this is no database" * 100)
    check = doctor.tuning_database(str(path))
    assert check.level == "fail"
    assert "damaged" in check.text


def test_a_good_database(tmp_path):
    Database(tmp_path / "good.db").close()
    assert doctor.tuning_database(str(tmp_path / "good.db")).level == "ok"


def test_few_openmp_threads(monkeypatch):
    monkeypatch.setattr(doctor, "_cores", lambda: 1000)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    check = doctor.kernel()
    assert check.level == "warn"
    assert "unset OMP_NUM_THREADS" in check.remedy


def test_a_container_with_less_time_than_processors(monkeypatch):
    monkeypatch.setattr("backends.host_share", lambda: 0.5)
    check = doctor.kernel()
    assert check.level == "warn" and "the time of 0.5" in check.text
    assert "OMP_NUM_THREADS=1" in check.remedy


def test_a_busy_machine(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    assert doctor.load().level == "warn"


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="cannot be written"):
        check = doctor.cache()
    assert check.level == "warn"
    assert "TENSORIR_CACHE" in check.remedy


def test_calibrated_peaks_are_named():
    assert doctor.describe_peak("gflops float32 2", 233.1) == "float32, 2 threads: 233 GFLOP/s"
    assert doctor.describe_peak("gbps 1", 20.2) == "memory, 1 thread: 20 GB/s"


def test_calibrate(monkeypatch, tmp_path):
    from autotune.calibration import peak

    monkeypatch.setattr(peak, "_flops", lambda *_: 100.0)
    monkeypatch.setattr(peak, "_gbps", lambda *_: 10.0)
    assert doctor.peaks(False).text.startswith("not measured yet")
    assert "memory" in doctor.peaks(True).text
    assert "GFLOP/s" in doctor.peaks(False).text


@pytest.mark.parametrize(("present", "level"), [(True, "warn"), (False, "ok")])
def test_what_is_missing_for_a_gpu_matters_where_there_is_one(present, level, monkeypatch):
    parts = [Software("cupy", "not installed", "pip install cupy"), Software("opencl", "none", "x")]
    monkeypatch.setattr(backends, "gpu_software", lambda: iter(parts))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if present else None)
    monkeypatch.setattr(doctor.Path, "exists", lambda path: False)
    assert list(doctor.gpus()) == [
        doctor.Check("cupy", level, "not installed", "pip install cupy"),
        doctor.Check("opencl", "ok", "none", "x"),
    ]


def test_a_check_of_gpus_that_breaks(monkeypatch):
    def breaks():
        raise RuntimeError("no such thing")
        yield

    monkeypatch.setattr(backends, "gpu_software", breaks)
    assert list(doctor.gpus()) == [doctor.Check("gpu", "fail", "RuntimeError: no such thing")]


def test_the_job_scheduler_of_pypi_is_recognised(tmp_path):
    (tmp_path / "schedule.py").write_text("def every(): pass\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "autotune" / "doctor.py")],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "schedule is the unrelated job scheduler of PyPI" in done.stdout
    assert "-> pip uninstall schedule" in done.stdout
