"""The parent of a measuring worker: `python -m autotune.guardian LIFELINE`.

It forks the worker and waits. When the worker ends, when it is told to (SIGTERM), or when the tuner
is gone (its end of the pipe LIFELINE closes), it ends all that came of the worker before it ends
itself, as the worker did. Children of children become its own when their parents end, daemons too
(Linux, PR_SET_CHILD_SUBREAPER), so that nothing gets away. It imports next to nothing and never
runs a candidate: what hangs or crashes is another process.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
END_SECONDS = 10.0


def main(lifeline: int, work: Callable[[], None]) -> None:
    """Do `work` in a child, and return when nothing is left of it: as it ended, if it did."""
    wake, woken = _wake_on_signals()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    guardian = os.getpid()
    worker = os.fork()
    if worker == 0:
        _become_worker(guardian, (lifeline, wake, woken))
        work()
        return
    _let_go_of_pipes()
    status = None
    while status is None:
        ready, _, _ = select.select([lifeline, wake], [], [])
        numbers = os.read(wake, 4096) if wake in ready else b""
        status = _reaped(worker)
        if lifeline in ready or signal.SIGTERM in numbers:
            break
    _end_all(worker)
    _end_as(status)


def _become_worker(guardian: int, handles: tuple[int, ...]) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for handle in handles:
        os.close(handle)
    os.setpgid(0, 0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guardian:  # it was gone before the system knew of the wish
        os._exit(1)


def _wake_on_signals() -> tuple[int, int]:
    """A pipe that gets the number of each signal."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return wake, woken


def _let_go_of_pipes() -> None:
    """The tuner sees that the worker is gone by the end of its output: nobody else may hold it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1):
        os.dup2(nothing, handle)


def _reaped(worker: int) -> int | None:
    """Reap who has ended, and tell how the worker did; None while it runs."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == worker:
            found = status


def _end_all(worker: int) -> None:
    """Kill until no child is left. Those of the killed become ours, and are next."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        for kill, target in [(os.killpg, worker), *((os.kill, pid) for pid in _descendants())]:
            try:
                kill(target, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _descendants() -> list[int]:
    """All processes below this one; none where the system does not show them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:  # after the name, which may hold anything: state, parent
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found, pending = [], [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _end_as(status: int | None) -> None:
    """End this process as the worker ended; in peace where it was us who ended it."""
    if status is not None and os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if os.WTERMSIG(status) != signal.SIGKILL:  # which nobody can handle
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(0 if status is None else os.WEXITSTATUS(status))


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group has to do."""
    function = getattr(ctypes.CDLL(None), "prctl", None)
    if function is not None:
        function(option, value, 0, 0, 0)


def _work() -> None:
    from autotune.measure.worker import main as answer_requests

    answer_requests()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("this program is started by autotune.measure.process")
    main(int(sys.argv[1]), _work)
