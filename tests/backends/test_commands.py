"""Nothing of a compiler stays behind: not at its time limit, at Ctrl-C, or when we die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_compilers import alive, hanging, script, started, wait_dead, wait_tied

from backends import BuildError, ObjectCache, build
from backends.c.objects import Background
from backends.commands import describe_status, run_command
from tensorir import te

ROOT = Path(__file__).parents[2]


def add_one():
    a = te.placeholder((4,), "float32", name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    return te.create_prim_func([a, b], name="add_one")


def test_at_the_time_limit_the_whole_family_ends(tmp_path):
    command, pids = hanging(tmp_path / "cc")
    with pytest.raises(subprocess.TimeoutExpired):
        run_command((command, "-shared"), "", 1.0)
    family = started(pids)
    assert not any(map(alive, family)), family


def test_a_hanging_compiler_fails_the_build_and_its_runtime_is_not_waited_for(
    tmp_path, monkeypatch
):
    command, pids = hanging(tmp_path / "cc")
    monkeypatch.setenv("CC", command)
    with pytest.raises(BuildError, match=r"add_one: cc took longer than 1 s; raise timeout="):
        build(add_one(), cache=ObjectCache(tmp_path / "cache"), timeout=1.0)
    assert all(wait_dead(pid) for pid in started(pids, 8))


PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_commands import add_one
from backends import ObjectCache, build
build(add_one(), cache=ObjectCache(sys.argv[2]))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_when_the_parent_ends_its_compilers_end(tmp_path, how):
    command, pids = hanging(tmp_path / "cc")
    env = {**os.environ, "CC": command, "PYTHONPATH": f"{ROOT}:{ROOT}/tests/backends"}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(tmp_path / "cache")],
        env=env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    family = started(pids, 8)
    assert all(map(wait_tied, family))
    parent.send_signal(how)
    _, errors = parent.communicate(timeout=20)
    assert parent.returncode == -how, errors
    if how is signal.SIGINT:
        assert all(map(wait_dead, family))
        return
    deadline = time.monotonic() + 5  # nobody is left who could look for those that left the group
    while len(left := list(filter(alive, family))) > 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) <= 4


def test_a_finished_command_leaves_nothing_in_its_group(tmp_path):
    pids = tmp_path / "pids"
    command = script(tmp_path / "cc", f"sleep 60 >/dev/null 2>&1 </dev/null & echo $! > {pids}")
    assert run_command((command,), "", 5.0).returncode == 0
    assert wait_dead(int(pids.read_text()))


def test_work_in_the_background_can_be_stopped(tmp_path):
    command, pids = hanging(tmp_path / "cc")
    work = Background(lambda: run_command((command, "-shared"), "", 60.0))
    family = started(pids)
    work.stop()
    assert work.wait().returncode != 0
    assert not any(map(alive, family))


def test_a_stopped_thread_starts_nothing_more(tmp_path):
    gate = threading.Event()

    def later():
        gate.wait()
        run_command(("true",), "", 5.0)

    work = Background(later)
    work.stop()
    gate.set()
    with pytest.raises(BuildError, match="true was stopped"):
        work.wait()


def test_what_cannot_be_started_is_named(tmp_path):
    path = tmp_path / "cc"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    with pytest.raises(BuildError, match=r"cannot run .*/cc --version: Exec format error"):
        run_command((str(path), "--version"), "", 5.0)
    with pytest.raises(BuildError, match="cannot run no-such-command: No such file"):
        run_command(("no-such-command",), "", 5.0)


def test_commands_speak_english_and_read_their_input(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    done = run_command(("sh", "-c", "cat; echo $LC_ALL; echo told >&2; exit 3"), "héllo\n", 5.0)
    assert (done.stdout, done.stderr, done.returncode) == ("héllo\nC\n", "told\n", 3)


def test_no_time_is_lost_on_a_quick_command():
    start = time.monotonic()
    run_command(("true",), "", 5.0)
    assert time.monotonic() - start < 1


def test_how_a_process_ended():
    assert describe_status(1) == "ended with exit status 1"
    assert describe_status(-11) == "died of SIGSEGV"
    assert "runs out of memory" in describe_status(-9)
    assert describe_status(None) == "was killed"
