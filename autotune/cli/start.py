"""Starting the command line: an interrupt while it is imported ends the process quietly."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

STOPPED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Import the command line and run it; see `autotune.cli.entry.main`.

    Importing takes a third of a second. An interrupt meanwhile ends the process at once: nothing
    has begun, and no package has to cope with an exception in the middle of its import.
    """
    try:
        usual = signal.signal(signal.SIGINT, _leave)
    except ValueError:  # not the main thread, which is the one that is interrupted
        usual = None
    try:
        from autotune.cli.entry import main as run
    finally:
        if usual is not None:
            signal.signal(signal.SIGINT, usual)
    return run(argv)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.stderr.write("stopped\n")
    sys.stderr.flush()
    os._exit(STOPPED)
