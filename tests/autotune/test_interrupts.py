"""Signals at any moment, while packages are imported too: no traceback, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RUN = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), getattr(signal, number))

number, moment, *words = sys.argv[1:]
import autotune
sys.meta_path.insert(0, Interrupt())
from autotune.cli import main
sys.exit(main(words))
"""

TUNE = "tune matmul --shape m=16 n=16 k=16 --trials 2 --database tuning.db"
DEMO = "demo --quick --trials 1 --database tuning.db"


def stopped(tmp_path, words, number, moment):
    """What a command says that gets a signal at an import, and its exit status. Nothing is left."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", RUN, number, moment, *words.split()],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 2
    assert not list(scratch.iterdir()) and not list(tmp_path.glob("*.lock"))
    return done.stderr, done.returncode


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "moment"),
    [
        (TUNE, "autotune.cli.entry"),
        (TUNE, "numpy"),
        (TUNE, "autotune.tuning.tuner"),
        (TUNE, "autotune.measure.measurer"),
        ("db list --database tuning.db", "sqlite3"),
        (DEMO, "autotune.cli.delegate"),
        (DEMO, "demo"),
        (DEMO, "demo.photo"),
        (DEMO, "sklearn"),
    ],
)
def test_an_interrupt_during_an_import(tmp_path, words, moment):
    said, status = stopped(tmp_path, words, "SIGINT", moment)
    assert status == 130 and "stopped" in said


@pytest.mark.parametrize(
    ("number", "moment", "status"),
    [("SIGTERM", "autotune.tuning.transfer", 143), ("SIGHUP", "autotune.tuning.race", 129)],
)
def test_who_is_told_to_end_leaves_nothing(tmp_path, monkeypatch, number, moment, status):
    """Before there are workers, and when all trials are stored."""
    heeding = f"import signal\nsignal.signal(signal.{number}, signal.SIG_DFL)"  # under nohup too
    monkeypatch.setattr(sys.modules[__name__], "RUN", f"{heeding}\n{RUN}")
    assert stopped(tmp_path, TUNE, number, moment)[1] == status


def test_a_signal_that_is_ignored_stays_ignored(tmp_path, monkeypatch):
    """As under nohup, or in the background of a shell."""
    for number, moment in (("SIGHUP", "sqlite3"), ("SIGINT", "autotune.cli.entry")):
        ignoring = f"import signal\nsignal.signal(signal.{number}, signal.SIG_IGN)"
        monkeypatch.setattr(sys.modules[__name__], "RUN", f"{ignoring}\n{RUN}")
        scratch = tmp_path / number
        scratch.mkdir()
        assert stopped(scratch, "db list --database tuning.db", number, moment)[1] == 1


def test_a_thread_may_run_the_command_line(capsys):
    from threading import Thread

    from autotune.cli import main

    statuses = []
    thread = Thread(target=lambda: statuses.append(main(["--version"])))
    thread.start()
    thread.join()
    assert statuses == [0]
