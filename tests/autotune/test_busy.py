"""How busy others are while times are taken."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune import tune
from autotune.measure.busy import Neighbours, disturbance
from tensorir import te
from tests.brief import BRIEF

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="there is no /proc/stat")

SPIN = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"


def test_neighbours_are_those_who_work_while_this_process_does_not(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))

    def write(work: int, stolen: int) -> None:
        rows = [f"cpu{n} {work} 0 0 5 0 0 0 {stolen} 0 0" for n in cpus]
        (tmp_path / "stat").write_text("\n".join(["cpu 9 9 9 9", *rows, "intr 5"]))

    def share(work: int, stolen: int) -> float | None:
        write(100, 0)
        neighbours = Neighbours(tmp_path)
        with neighbours.watching():
            time.sleep(0.05)
            write(work, stolen)
        return neighbours.share()

    assert share(100, 0) == 0
    assert share(200, 0) > 1  # a second's worth of ticks in a twentieth of it
    assert share(100, 100) > 1
    (tmp_path / "stat").unlink()
    unknown = Neighbours(tmp_path)
    with unknown.watching():
        pass
    assert unknown.share() is None


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_work_of_children_is_our_own(depth):
    """While they live, and once they have ended; theirs too."""
    program = SPIN.format(0.25)
    if depth:
        program += "\nimport sys; sys.stdin.read()"
    for _ in range(depth - 1):
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    own = [Neighbours()._read()[2]]
    if depth:
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        end = time.monotonic() + 60
        while (seen := Neighbours()._read()[2]) <= own[0] + 0.1 and time.monotonic() < end:
            time.sleep(0.02)
        assert seen > own[0] + 0.1, "the work of a living child was not seen"
        child.communicate()
    else:
        exec(program, {})
    assert Neighbours()._read()[2] - own[0] >= 0.2


def test_the_note():
    assert disturbance([None, 0.01]) == disturbance([]) == ""
    assert "up to 40% of the processors" in disturbance([0.1, None, 0.4])


@pytest.mark.parametrize("share", [0.0, 0.37])
def test_tune_warns(pretended, monkeypatch, share):
    monkeypatch.setattr(Neighbours, "share", lambda self: share)
    a = te.placeholder((8, 24), name="A")
    b = te.compute((8, 24), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, b], name="scaled")
    result = tune(func, trials=1, database=None, settings=BRIEF, progress=False)
    assert ("other programs used up to 37%" in result.notice) == bool(share)
