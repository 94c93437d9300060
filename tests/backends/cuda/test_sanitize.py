"""sanitize: schedules under the checks of the emulator, and faults put into what lowering makes."""

from __future__ import annotations

import numpy as np
import pytest

from backends import sanitize
from schedule import Schedule
from tensorir import TensorIRError, te


def row_sums(rows=5, columns=70, threads=64):
    n = te.var("n") if rows is None else rows
    a = te.placeholder((n, columns), name="A")
    k = te.reduce_axis(columns, name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    i, k_ = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k_, [None, threads])[1], "threadIdx.x")
    return sch


@pytest.mark.parametrize("threads", [64, 1024])
def test_a_schedule_that_is_right(threads):
    """The last threads of the largest block are told apart from other blocks, too."""
    findings = row_sums(2, 1030, threads).sanitize()
    assert findings.reports == () and str(findings) == "nothing is wrong"


def test_arrays_and_sizes():
    sch = row_sums(None)
    assert not sanitize(sch, sizes={"n": 3}).reports
    assert not sanitize(sch.func, np.ones((2, 70), np.float32), target="cuda -arch=sm_90a").reports
    with pytest.raises(TensorIRError, match="the sizes n are not known"):
        sch.sanitize()
    with pytest.raises(TensorIRError, match="not both"):
        sch.sanitize(np.ones((2, 70), np.float32), sizes={"n": 2})
    with pytest.raises(TensorIRError, match="has no emulator; give 'cuda' or 'cuda-emulator'"):
        sch.sanitize(target="c", sizes={"n": 2})
    with pytest.raises(TensorIRError, match="'race' is not one of alignment"):
        sch.sanitize(checks="race", sizes={"n": 2})


def test_counts():
    findings = row_sums().sanitize(checks="counts")
    loads = [c for c in findings.counts if c.what == "load" and c.buffer == "A"]
    assert sum(c.instructions for c in loads) > 0
    assert all(c.transactions >= c.least for c in loads)


def without(kind):
    """A lowering that leaves the last statements of a kind out."""
    from tensorir.passes import lower_gpu
    from tensorir.passes.rewriting import NOTHING, replace_stmts, with_body
    from tensorir.visit import walk

    passes = lower_gpu.gpu_passes

    def drop(func):
        found = [s for s in walk(func.body) if isinstance(s, kind)]
        return with_body(func, replace_stmts(func.body, {found[-1]: NOTHING})) if found else func

    return lambda target: [*passes(target), ("drop", drop)]


def test_a_barrier_that_is_left_out_is_found(monkeypatch):
    from tensorir import Sync

    monkeypatch.setattr("tensorir.passes.lower_gpu.gpu_passes", without(Sync))
    reports = row_sums(3, 200).sanitize().reports
    races = [str(report) for report in reports if report.kind == "race"]
    assert races and all("kernel" in text and "loops" in text for text in races)


PROGRAM = """
from schedule import Schedule
from tensorir import te

def doubled(n=10, threads=32):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2, name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    outer, inner = sch.split("i", [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch
"""


def test_the_command(tmp_path, capsys):
    from autotune.cli import main

    file = tmp_path / "kernels.py"
    file.write_text(PROGRAM, encoding="utf-8")
    assert main(["sanitize", f"{file}:doubled", "--shape", "n=77"]) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"
    assert main(["sanitize", str(file), "--checks", "counts", "--seed", "3"]) == 0
    assert capsys.readouterr().out.count(": load of A: ") == 1
    assert main(["sanitize", str(file), "--checks", "speed"]) == 1
    assert "-check='speed' is not one of" in capsys.readouterr().err
    assert main(["sanitize", str(file), "--target", "c"]) == 1
    assert "has no emulator" in capsys.readouterr().err
    assert main(["sanitize", str(file), "--seed", "-3"]) == 2
