"""Running another program, a compiler above all, so that nothing of it stays behind.

A command has a session of its own: Ctrl-C reaches only us. When it is late, interrupted or not
wanted any more, all that came of it is ended: its process group, and what left that (a daemon),
found by a mark in its environment, which children inherit. When this process dies, however it does,
the system ends the group (see `_tie`). A finished command leaves nothing in its group either.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from backends.errors import BuildError

MARK = "TENSORIR_COMMAND"
"""The environment variable that all processes of one command share."""

GRACE_SECONDS = 0.3
"""What is to end gets this long to remove its temporary files."""

SWEEP_SECONDS = 5.0

_lock = threading.Lock()
_running: dict[threading.Thread, tuple[subprocess.Popen[str], str]] = {}
_stopped: WeakSet[threading.Thread] = WeakSet()


def run_command(
    command: tuple[str, ...], text: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command with `text` as its input, and English messages.

    Raises subprocess.TimeoutExpired when it takes longer than `timeout` seconds, and BuildError
    where it cannot be started.
    """
    mark = os.urandom(16).hex()
    with _started(command, mark) as process:
        try:
            out, err = process.communicate(text, timeout)
        except BaseException:
            _end(process, mark)
            raise
        _signal_group(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def stop_commands(thread: threading.Thread) -> None:
    """End the command that a thread runs, and refuse it any further one."""
    with _lock:
        _stopped.add(thread)
        found = _running.get(thread)
    if found is not None:
        _end(*found)


def describe_status(code: int | None) -> str:
    """How a process ended, by its return code: "died of SIGSEGV", "ended with exit status 1"."""
    if code is None:
        return "was killed"
    if code >= 0:
        return f"ended with exit status {code}"
    if -code == signal.SIGKILL:
        return "died of SIGKILL, as when the system runs out of memory"
    try:
        return f"died of {signal.Signals(-code).name}"
    except ValueError:
        return f"died of signal {-code}"


@contextmanager
def _started(command: tuple[str, ...], mark: str) -> Iterator[subprocess.Popen[str]]:
    """The process of a command, which is known to `stop_commands` meanwhile."""
    thread = threading.current_thread()
    lifeline = None
    try:
        watched, lifeline = os.pipe()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, "LC_ALL": "C", MARK: mark},
                pass_fds=(watched,),
                start_new_session=True,
            )
            _tie(watched, process.pid)
        finally:
            os.close(watched)
        with _lock:
            _running[thread] = process, mark
            stopped = thread in _stopped
        if stopped:
            _end(process, mark)
            raise BuildError(f"{shlex.join(command)} was stopped")
        yield process
    except OSError as error:
        reason = error.strerror or error
        raise BuildError(f"cannot run {shlex.join(command)}: {reason}") from error
    finally:
        with _lock:
            ended = _running.pop(thread, None)
        for pipe in () if ended is None else (ended[0].stdin, ended[0].stdout, ended[0].stderr):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        if lifeline is not None:
            os.close(lifeline)


def _tie(watched: int, group: int) -> None:
    """Have the system kill a process group when the other end of a pipe closes.

    The processes inherit the end `watched`; nobody ever writes. When we die, the kernel sends the
    signal that is set here to the whole group; nobody has to be alive to do it (Linux, fcntl(2)).
    Only what is killed between starting a command and this, microseconds, leaves it behind.
    """
    import fcntl

    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(watched, fcntl.F_SETOWN, -group)
        fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(watched, fcntl.F_GETFL)
        fcntl.fcntl(watched, fcntl.F_SETFL, flags | os.O_ASYNC)


def _end(process: subprocess.Popen[str], mark: str) -> None:
    """End all that came of a command. Does not wait for what its pipes may still give."""
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + SWEEP_SECONDS
    while (found := _marked(mark)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    with suppress(subprocess.TimeoutExpired):
        process.wait(SWEEP_SECONDS)


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _marked(mark: str, processes: Path = Path("/proc")) -> list[int]:
    """The processes that have this mark; none where the system does not show them."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in processes.glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # it has ended, or belongs to another user
            continue
    return found
