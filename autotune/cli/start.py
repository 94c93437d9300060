"""Starting the command line, and what ends it from outside: quietly, and with nothing left."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOPPED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Import the command line and run it; see `autotune.cli.entry.main`.

    Importing takes a third of a second. An interrupt meanwhile ends the process at once: nothing
    has begun, and no package has to cope with an exception in the middle of its import. A command
    that is told to end (SIGTERM), or whose terminal is closed (SIGHUP), takes its locks, folders
    and workers along.
    """
    with _on(signal.SIGINT, _leave):
        from autotune.cli.entry import main as run
    with _on(signal.SIGTERM, _end), _on(signal.SIGHUP, _end):
        return run(argv)


@contextmanager
def _on(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle a signal meanwhile, unless it is ignored, as under nohup; in the main thread, which is
    the one that gets it."""
    usual = signal.getsignal(number)
    if usual is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, usual)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.stderr.write("stopped\n")
    sys.stderr.flush()
    os._exit(STOPPED)
