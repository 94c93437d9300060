"""Native code that cannot be stopped, in a thread of its own, so that Ctrl-C is heard meanwhile.

What is left behind goes on, and the process waits for it at its end: code that still runs while the
libraries it uses are taken down would crash. Python itself waits for threads, but not for one that
was starting when Ctrl-C came.

NVRTC is such code.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_running: set[_Job] = set()
_ended = False


class TooLate(Exception):
    """The work took longer than it was given."""


def run_apart(work: Callable[[], T], name: str, timeout: float) -> T:
    """What `work` returns, or raises; it runs in a thread called `name`.

    Raises TooLate after `timeout` seconds, and KeyboardInterrupt at Ctrl-C: the work goes on. A
    second Ctrl-C, while the process waits for it, ends that at once.
    """
    job = _Job(work)
    threading.Thread(target=job.run, name=name, daemon=True).start()  # _wait_for_all waits
    # a join that is interrupted takes the thread for ended (bpo-45274)
    if not job.done.wait(timeout):
        raise TooLate
    return job.outcome()


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self.done = threading.Event()
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        with _lock:
            if not _ended:
                _running.add(self)
        try:
            if self not in _running:
                raise RuntimeError("the process ends")
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
        self.done.set()
        with _lock:
            _running.discard(self)

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        (result,) = self._results
        return result


@atexit.register
def _wait_for_all() -> None:
    global _ended
    with _lock:
        _ended = True
        running = list(_running)
    try:
        for job in running:
            job.done.wait()
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)  # as of a shell's child at Ctrl-C; takes nothing down


def _forget() -> None:
    """A forked child has none of the threads."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
