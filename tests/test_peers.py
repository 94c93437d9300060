"""The comparison with other libraries: right answers, honest ratios, and a run with NumPy alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import Timing
from benchmarks import scale
from benchmarks.limits import MEMORY, Limits
from benchmarks.peers import report
from benchmarks.peers.__main__ import main as peers_main
from benchmarks.peers.catalog import OURS, PEERS, Peer
from benchmarks.peers.figures import Figures
from benchmarks.peers.install import pythons
from benchmarks.peers.kinds import (
    KINDS,
    bf16_bits,
    bf16_values,
    make_inputs,
    moved_bytes,
    tolerance_of,
)
from benchmarks.peers.libraries import numpy_forms
from benchmarks.peers.process import Gone, Process
from benchmarks.peers.programs import PROGRAMS, prim_func
from benchmarks.peers.rows import Row
from benchmarks.peers.sets import SETS
from benchmarks.peers.task import Task, Unsupported, attempt
from benchmarks.peers.turns import Subject, in_turns
from benchmarks.peers.worker import Worker
from benchmarks.table import write_readme
from tensorir import reference

ROOT = Path(__file__).parent.parent
QUICK = SETS["quick"]
ROW = Row("matmul 4", "matmul", {"m": 4, "k": 4, "n": 4})
LIMITS = Limits(1, {"float32": 1.0}, {"L1d": 400.0, MEMORY: 20.0}, {"L1d": 1000})


def run_peers(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def timing(*ms: float) -> Timing:
    return Timing(tuple(t / 1e3 for t in ms), 1)


def figures(ours: Timing | None, *peers: Timing, **changes: Any) -> Figures:
    times = {} if ours is None else {Subject(OURS, "default", 1, 1.0): ours}
    names = [name for name in PEERS if name != OURS]
    times |= {Subject(name, "form", 1, 1.0): t for name, t in zip(names, peers)}
    given: dict[str, Any] = {
        "row": ROW, "times": times, "errors": {}, "missing": {}, "flops": 10**6, "bytes": 192,
        "dtype": "float32", "limits": LIMITS, "others": 0.0,
    }  # fmt: skip
    return Figures(**{**given, **changes})


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_the_program_means_what_is_expected(row):
    inputs = make_inputs(row.kind, row.sizes)
    found, *_ = reference(prim_func(row.kind, row.sizes), *inputs.values())
    expected = KINDS[row.kind].expected(row.sizes, inputs)
    assert np.shape(found) == expected.shape
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() <= scale * (1e-2 if "bf16" in row.kind else 1e-6)


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_numpy_gives_the_expected(row):
    inputs = make_inputs(row.kind, row.sizes)
    kind = KINDS[row.kind]
    expected = kind.expected(row.sizes, inputs)
    task = Task(row.kind, row.sizes, inputs, kind.constants, expected.shape, 1)
    many_calls = row.sizes.get("op") in ("max_pool2d", "topk")
    no_calls = row.kind in ("bf16_matmul", "invented") or row.sizes.get("activation") == "gelu"
    if no_calls or many_calls:
        with pytest.raises(Unsupported):
            numpy_forms.prepare(task)
        return
    worker = Worker("numpy_forms", 1)
    errors = [worker.error(call, expected) for call in numpy_forms.prepare(task).values()]
    assert errors and max(errors) <= tolerance_of(row.kind, row.sizes)


def test_rows_are_well_formed():
    alone = {"operators": {"operator"}, "invented": {"invented"}}
    most = set(KINDS).difference(*alone.values())
    named = {"main": most, "other": most, "quick": set(KINDS), **alone}
    assert named.keys() == SETS.keys() and set(KINDS) == set(PROGRAMS)
    for name, rows in SETS.items():
        assert len({row.name for row in rows}) == len(rows)
        assert {row.kind for row in rows} == named[name]
        for row in rows:
            assert Row.from_json(json.loads(json.dumps(row.to_json()))) == row
            assert KINDS[row.kind].flops(row.sizes) >= 0
    assert not {row.name for row in SETS["main"]} & {row.name for row in SETS["other"]}


def test_flops_and_bytes_of_a_strided_grouped_convolution():
    sizes = {"c": 4, "k": 6, "r": 3, "size": 7, "stride": 2, "groups": 2}
    inputs = make_inputs("conv2d", sizes)
    expected = KINDS["conv2d"].expected(sizes, inputs)
    assert expected.shape == (1, 6, 4, 4)
    assert KINDS["conv2d"].flops(sizes) == 2 * 6 * 16 * 2 * 9
    assert moved_bytes("conv2d", inputs, expected) == 4 * (4 * 49 + 6 * 2 * 9 + 6 + 6 * 16)


def test_bf16_rounds_to_nearest_even():
    bits = bf16_bits(np.array([1.0, 1.00390625, 1.01171875, -3.0], np.float32))
    assert bf16_values(bits).tolist() == [1.0, 1.0, 1.015625, -3.0]


def test_the_limit_is_the_longer_time():
    limits = Limits(1, {"float32": 100.0}, {"L1d": 400.0, MEMORY: 20.0}, {"L1d": 1000})
    assert limits.seconds(10**6, 400) == (1e-5, "arithmetic")
    assert limits.seconds(0, 400) == (1e-9, "L1d")
    assert limits.seconds(10**6, 10**6) == (5e-5, MEMORY)
    assert limits.seconds(10, 10, "int8") is None


def test_what_disturbs_makes_limits_lower():
    other = Limits(1, {"float32": 2.0}, {"L1d": 300.0, MEMORY: 30.0}, {"L1d": 1000})
    better = LIMITS.better(other)
    assert dict(better.gops) == {"float32": 2.0}
    assert dict(better.gbps) == {"L1d": 400.0, MEMORY: 30.0}


def test_what_is_above_the_limit_is_said():
    row = figures(timing(0.5, 0.5, 0.5), timing(1, 1, 1))
    assert row.share(row.ours) == pytest.approx(2)
    assert "above the limit of the usual algorithm: matmul 4" in report.text([row])


def test_the_fastest_peer_counts():
    row = figures(timing(2, 2, 2), timing(5, 5, 5), timing(4, 4, 4))
    assert row.best_peer is not None and row.best_peer.library == "torch"
    assert row.gain is not None and row.gain.ratio == pytest.approx(2)
    assert row.share(row.ours) == pytest.approx(0.5)


def test_a_row_without_our_time_has_no_ratio_and_is_a_failure():
    row = figures(None, timing(1, 1, 1), missing={f"{OURS} default": "wrong result"})
    assert row.gain is None and row.ours is None
    assert report.failures([row]) == ["matmul 4: tensorir default: wrong result"]
    assert "matmul 4" in report.text([row])


def test_a_library_that_nobody_has_a_form_for_is_no_failure():
    assert not report.failures([figures(timing(1), missing={"numba": "no form"})])


def test_the_readme_table_goes_between_the_marks(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- peers -->\nold\n<!-- /peers -->\nb\n")
    assert write_readme(readme, "peers", "new\n")
    assert readme.read_text() == "a\n<!-- peers -->\nnew\n<!-- /peers -->\nb\n"
    readme.write_text("no marks\n")
    assert not write_readme(readme, "peers", "new\n")
    assert readme.read_text() == "no marks\n"


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0])
def test_a_wrong_result_is_noticed(bad):
    worker = Worker("numpy_forms", 1)
    expected = np.ones(3)
    assert worker.error(lambda: np.array([1, bad, 1], np.float32), expected) >= 1


def test_what_another_form_left_in_the_output_does_not_count():
    out = np.ones(3, np.float32)
    assert Worker("numpy_forms", 1).error(lambda: out, np.ones(3)) == np.inf


def test_a_form_that_cannot_be_made_fails_alone():
    def make() -> Any:
        raise ValueError("no such graph")

    with pytest.raises(ValueError, match="no such graph"):
        attempt(make)()


def test_a_library_that_does_not_install_is_left_out(tmp_path, monkeypatch):
    peer = Peer("numpy_forms", ("./no-such-file.whl",))
    monkeypatch.setitem(PEERS, "broken", peer)  # type: ignore[arg-type]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    found, reasons = pythons(["numpy", "broken"], tmp_path)
    assert set(found) == {"numpy"}
    assert reasons["broken"].startswith("not installed: ")


def test_a_library_that_cannot_be_imported_does_not_start(monkeypatch):
    monkeypatch.setitem(PEERS, "broken", Peer("no_such_module"))  # type: ignore[arg-type]
    with pytest.raises(Gone, match="no_such_module"):
        Process("broken", 1, Path(sys.executable))


def test_a_library_that_dies_drops_out():
    process = Process("numpy", 1, Path(sys.executable))
    subject = Subject("numpy", "matmul", 1, 1e-6)
    process._child.kill()
    times, gone = in_turns({"numpy": [subject]}, {"numpy": process}, rounds=2, pause_s=0)
    process.close()
    assert not times
    assert "ended with status -9" in gone["numpy"]


def test_a_run_with_numpy(tmp_path):
    file = tmp_path / "found" / "out.json"
    done = run_peers("--quick", "--peers", "numpy", "--only", "matmul 24", "--json", str(file))
    assert done.returncode == 0, done.stderr
    data = json.loads(file.read_text())
    rows = {row["name"]: row for row in data["rows"]}
    assert set(rows) == {"matmul 24"}
    for row in rows.values():
        subjects = {(t["library"], t["form"]): t for t in row["times"]}
        assert set(subjects) == {(OURS, "default"), ("numpy", "matmul")}
        assert all(len(t["blocks"]) == 3 and t["median"] > 0 for t in subjects.values())
        assert all(t["error"] < 1e-5 for t in subjects.values())
        ratio, low, high = row["gain"]
        assert low <= ratio <= high
    assert "numpy 2" in data["environment"]["libraries"]
    assert "| matmul 24 |" in file.with_suffix(".md").read_text()
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_wrong_requests_are_refused(capsys):
    assert peers_main(["--peers", "mkl"]) == 2
    assert "unknown peers mkl; there are tensorir, numpy" in capsys.readouterr().err
    assert peers_main(["--quick", "--only", "pooling"]) == 2
    assert "matmul 24" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        peers_main(["--threads", "0"])
    assert "must be at least 1, not 0" in capsys.readouterr().err


def test_sizes_of_the_scaling_runs():
    assert scale.thread_counts(1) == [1]
    assert scale.thread_counts(6) == [1, 2, 4, 6]
    for kind in scale.SIZES:
        steps = list(scale.ladder(kind, quick=False))
        works = [np.prod(list(sizes.values())) for sizes in steps]
        assert works == sorted(set(works)) and len(works) > 5


def test_a_scaling_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scale, "measure_limits", lambda threads, seconds: LIMITS)
    file = tmp_path / "scale.json"
    assert scale.main(["--quick", "--only", "row_sum", "--json", str(file)]) == 0
    points = json.loads(file.read_text())["points"]
    assert {p["kind"] for p in points} == {"row_sum"}
    assert {p["threads"] for p in points} >= {1}
    assert all(p["median"] > 0 and p["limit_seconds"] > 0 for p in points)
    assert file.with_suffix(".png").exists()
    assert "GB/s" in capsys.readouterr().out
