"""One lock for all users of a machine, at a place where others may have put something first."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
import warnings

import pytest

from autotune.measure import lock, machine_lock

HOLD = """
import os, sys, pathlib
from autotune.measure import lock, machine_lock
lock.SHARED_FOLDER = pathlib.Path(sys.argv[1])
with machine_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the lock of all users is; the user's own folder is another one."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    home.mkdir()
    monkeypatch.setattr(lock, "SHARED_FOLDER", shared)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return lock.shared_path()


def test_two_users_exclude_each_other(place, tmp_path, monkeypatch):
    """They have other homes, caches and temporary folders."""
    other = {"HOME": "other", "XDG_CACHE_HOME": "other/cache", "TMPDIR": "other/tmp"}
    env = {**os.environ, **{name: str(tmp_path / path) for name, path in other.items()}}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    pipe = subprocess.PIPE
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place.parent)], stdin=pipe, stdout=pipe, env=env
    )
    assert holder.stdout.readline() == b"held\n"
    monkeypatch.setattr(lock, "REPORT_SECONDS", 0.05)
    messages = []

    def report(text):
        messages.append(text)
        holder.stdin.close()

    with machine_lock(report=report):
        assert messages == [f"waiting for another tuner on this machine ({place} is locked)"]
    holder.wait()


def test_the_file_is_everybodys_to_read_and_nobody_writes_to_it(place):
    before = os.umask(0o077)
    try:
        with machine_lock():
            assert stat.S_IMODE(place.stat().st_mode) == 0o644 and place.stat().st_size == 0
    finally:
        os.umask(before)


def link(place):
    place.symlink_to(place.with_name("victim"))


def pipe(place):
    os.mkfifo(place)


def folder(place):
    place.mkdir()


@pytest.mark.parametrize("trap", [link, pipe, folder])
def test_what_somebody_put_there_is_not_used(place, trap):
    trap(place)
    with pytest.warns(UserWarning, match="only tuners of this user are kept from timing") as said:
        with machine_lock():
            assert lock.own_path().exists()
            assert not lock._try_lock(os.open(lock.own_path(), os.O_RDONLY), shared=False)
    assert str(place) in str(said[0].message)
    assert not place.with_name("victim").exists()


def test_a_file_that_may_not_be_read(place, monkeypatch):
    real = os.open

    def refuse(path, *given, **more):
        if path == place:
            raise PermissionError(13, "Permission denied")
        return real(path, *given, **more)

    monkeypatch.setattr(lock.os, "open", refuse)
    with pytest.warns(UserWarning, match="cannot be locked .Permission denied.: only"):
        with machine_lock():
            pass


def test_a_file_that_was_swept_away_meanwhile_locks_nobody(place):
    """Who waited for it locks the new one, as all others do."""
    order = []

    def wait():
        with machine_lock():
            order.append("waiter")

    with machine_lock():
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(3 * lock.POLL_SECONDS)
        place.unlink()
        newcomer = os.open(place, os.O_CREAT | os.O_RDONLY)
        assert lock._try_lock(newcomer, shared=False)
    time.sleep(5 * lock.POLL_SECONDS)
    assert order == []
    os.close(newcomer)
    waiter.join()
    assert order == ["waiter"]


def test_it_is_silent_where_all_is_well(place):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with machine_lock(), machine_lock(path=place.with_name("another")):
            pass


def test_without_a_folder_for_the_lock_there_is_none(tmp_path):
    with machine_lock(path=tmp_path / "no" / "lock") as waited:
        assert waited == 0.0


def test_the_lock_excludes_and_reports(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.measure.lock.REPORT_SECONDS", 0.1)
    path = tmp_path / "lock"
    code = (
        "import sys, pathlib\nfrom autotune.measure import machine_lock\n"
        "with machine_lock(path=pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
    )  # fmt: skip
    assert other.stdout.readline() == b"held\n"
    messages = []

    def report(text):
        messages.append(text)
        other.stdin.close()

    with machine_lock(report=report, path=path) as waited:
        assert waited > 0.1
    assert len(messages) == 1 and "waiting for another tuner" in messages[0]
    other.wait()


def test_shared_holders_do_not_exclude_each_other(tmp_path):
    with machine_lock(shared=True, path=tmp_path / "l"):
        with machine_lock(shared=True, path=tmp_path / "l") as waited:
            assert waited < 0.5
