"""Temporary folders that outlive nobody: whoever makes one next removes those of dead processes.

A folder is alive while a process holds the lock on it, which the system releases when the process
dies. So neither the number of a process, which another one can have later or elsewhere, nor the
time says anything, and two cleaners cannot meet in one folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

PREFIX = "tensorir-scratch-"


class ScratchFolder:
    """An empty folder in the temporary one (TMPDIR), which goes at `close`, and at the latest when
    the process ends. Raises OSError where it cannot be made."""

    def __init__(self) -> None:
        remove_abandoned()
        while True:  # a cleaner may take it for abandoned before it is locked
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
            handle = _locked(path, wait=True)
            if path.is_dir() if handle is None else _is_still(path, handle):
                break
            if handle is not None:
                os.close(handle)
        self.path = path
        self._finish = weakref.finalize(self, _remove, path, handle, os.getpid())

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        self._finish()


def remove_abandoned(parent: Path | None = None) -> int:
    """Remove the folders of processes that are gone; returns how many there were."""
    removed = 0
    with suppress(OSError):
        for entry in os.scandir(parent or tempfile.gettempdir()):
            if entry.name.startswith(PREFIX) and _remove_if_abandoned(Path(entry.path)):
                removed += 1
    return removed


def _remove_if_abandoned(path: Path) -> bool:
    handle = _locked(path, wait=False)
    if handle is None:
        return False
    try:
        if not _is_still(path, handle) or os.fstat(handle).st_uid != os.getuid():
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(handle)


def _locked(path: Path, wait: bool) -> int | None:
    """A handle that holds the lock on a folder; None where it is held, or cannot be locked."""
    try:
        import fcntl

        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _is_still(path: Path, handle: int) -> bool:
    """Whether the folder that is locked is the one that has this path now."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except OSError:
        return False


def _remove(path: Path, handle: int | None, owner: int) -> None:
    if os.getpid() != owner:  # a forked child, which leaves it to its parent
        return
    shutil.rmtree(path, ignore_errors=True)
    if handle is not None:
        os.close(handle)
