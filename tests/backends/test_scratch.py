"""Temporary folders: those of the living stay, those of the dead go."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from backends import scratch
from backends.scratch import PREFIX, ScratchFolder, remove_abandoned

ROOT = Path(__file__).parents[2]
OWNER = (
    "import sys, time; from backends.scratch import ScratchFolder; f = ScratchFolder();"
    "(f.path / 'file').write_text('x' * 1000); print(f.path, flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_goes_when_it_is_closed(temporary):
    folder = ScratchFolder()
    assert folder.path.parent == temporary and folder.path.stat().st_mode & 0o077 == 0
    (folder.path / "sub").mkdir()
    folder.close()
    folder.close()
    assert not list(temporary.iterdir())


def test_the_next_one_removes_what_the_dead_left_and_nothing_else(temporary):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    owners = [
        subprocess.Popen([sys.executable, "-c", OWNER], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead, living = (Path(owner.stdout.readline().strip()) for owner in owners)
    own = ScratchFolder()
    others = [temporary / "tensorir-other", temporary / f"x{PREFIX}"]
    for other in others:
        other.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(others[0])
    owners[0].send_signal(signal.SIGKILL)
    owners[0].communicate()
    try:
        assert remove_abandoned() == 1
        assert not dead.exists() and (living / "file").exists() and own.path.exists()
        assert all(other.exists() for other in others)
    finally:
        owners[1].kill()
        owners[1].communicate()
    ScratchFolder().close()
    assert not living.exists() and own.path.exists()


def test_cleaners_and_owners_at_once(temporary):
    """Nobody loses a folder, and nothing is left."""
    lost, stop = [], threading.Event()

    def own():
        for _ in range(100):
            folder = ScratchFolder()
            try:
                (folder.path / "file").write_text("x")
            except OSError as error:
                lost.append(error)
            folder.close()

    def clean():
        while not stop.is_set():
            remove_abandoned()

    owners, cleaners = [[threading.Thread(target=f) for _ in range(2)] for f in (own, clean)]
    for thread in owners + cleaners:
        thread.start()
    for thread in owners:
        thread.join()
    stop.set()
    for thread in cleaners:
        thread.join()
    assert not lost and not list(temporary.iterdir())


def test_a_folder_that_a_cleaner_took_before_it_was_locked_is_made_again(monkeypatch):
    lock, taken = scratch._locked, []

    def late(path, wait):
        if wait and not taken:
            taken.append(path)
            shutil.rmtree(path)  # by a cleaner, between the making and the lock
            path.mkdir()
            handle = lock(path, wait)
            shutil.rmtree(path)
            return handle
        return lock(path, wait)

    monkeypatch.setattr(scratch, "_locked", late)
    folder = ScratchFolder()
    assert folder.path.is_dir() and folder.path != taken[0]


def test_a_forked_child_leaves_the_folder_alone():
    folder = ScratchFolder()
    pid = os.fork()
    if pid == 0:
        folder.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert folder.path.is_dir()
