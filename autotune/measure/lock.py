"""One lock per user and machine, so that no two tuners disturb each other's times.

Timing takes it exclusively; building shares it, since compilers are what spoils a measurement.
The system releases the lock of a process that dies.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.02
REPORT_SECONDS = 2.0

Report = Callable[[str], None]


@contextmanager
def machine_lock(
    shared: bool = False, report: Report | None = None, path: Path | None = None
) -> Iterator[float]:
    """Hold the lock; gives the seconds that were spent waiting.

    `report` is told once when the wait gets long. Where files cannot be locked (no fcntl), or no
    folder can be written, there is no lock.
    """
    try:
        import fcntl

        opened = open(path or lock_path(), "a+b")
    except (ImportError, OSError):
        yield 0.0
        return
    with opened as file:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        start, reported = time.monotonic(), report is None
        while True:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - start
            if not reported and report is not None and waited > REPORT_SECONDS:
                report(f"waiting for another tuner on this machine ({file.name} is locked)")
                reported = True
            time.sleep(POLL_SECONDS)
        yield time.monotonic() - start


def lock_path() -> Path:
    """The lock file in the user's cache folder, or in the temporary one if that is read-only."""
    from platformdirs import user_cache_dir

    folder = Path(user_cache_dir("tensorir"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder / "measure.lock"
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / f"tensorir-{os.getuid()}.lock"
