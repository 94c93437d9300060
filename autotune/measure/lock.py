"""One lock per machine, so that no two tuners disturb each other's times, whoever runs them.

Timing takes it exclusively; building shares it, since compilers are what spoils a measurement.
The system releases the lock of a process that dies.

The file lies where all users may make files, and others might have put something there first: no
link is followed, nothing but a regular file is taken, and nothing is read from it or written to it.
Who may read a file may lock it, so it can be everybody's and only its owner can fill it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.02
REPORT_SECONDS = 2.0

SHARED_FOLDER = Path("/tmp")
"""Not TMPDIR, which each user may have set to another folder."""

NAME = "tensorir-measure.lock"
ATTEMPTS = 5

Report = Callable[[str], None]


@contextmanager
def machine_lock(
    shared: bool = False, report: Report | None = None, path: Path | None = None
) -> Iterator[float]:
    """Hold the lock; gives the seconds that were spent waiting.

    `report` is told once when the wait gets long. Where files cannot be locked (no fcntl), or no
    folder can be written, there is no lock; where no file of all users can be had, a warning says
    so, and the lock is one of this user.
    """
    start, told = time.monotonic(), report is None
    while True:
        found = _opened(path)
        if found is None:
            yield 0.0
            return
        handle, place = found
        try:
            while not _try_lock(handle, shared):
                if not told and report is not None and time.monotonic() - start > REPORT_SECONDS:
                    report(f"waiting for another tuner on this machine ({place} is locked)")
                    told = True
                time.sleep(POLL_SECONDS)
            if _is_still_there(handle, place):
                yield time.monotonic() - start
                return
        finally:
            os.close(handle)


def _opened(path: Path | None) -> tuple[int, Path] | None:
    """A handle of the lock file, and where it is; None where there can be no lock."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return None
    first = path or shared_path()
    try:
        return _open(first), first
    except OSError as error:
        if path is not None:
            return None
        why = error.strerror or str(error)
    own = own_path()
    try:
        found = _open(own), own
    except OSError:
        return None
    warnings.warn(
        f"{first} cannot be locked ({why}): only tuners of this user are kept from timing at the "
        "same time; have it removed, or made readable for all",
        stacklevel=4,
    )
    return found


def shared_path() -> Path:
    """The lock file of all users."""
    folder = SHARED_FOLDER if SHARED_FOLDER.is_dir() else Path(tempfile.gettempdir())
    return folder / NAME


def own_path() -> Path:
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


def _open(path: Path) -> int:
    """A handle of a file that all may read, made where there is none; OSError for anything else."""
    # Without waiting for the other end of a pipe, should it be one.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for attempt in range(ATTEMPTS):
        try:
            # Not O_CREAT at once: systems refuse that for the files of others in shared folders.
            handle = os.open(path, flags)
            break
        except FileNotFoundError:
            try:
                handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue
            os.fchmod(handle, 0o644)  # whatever the umask takes away
            break
        except PermissionError:
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(POLL_SECONDS)  # its owner may be about to let all read it
    else:
        raise FileNotFoundError(None, "it comes and goes", str(path))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(None, "it is no regular file", str(path))
    return handle


def _try_lock(handle: int, shared: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still_there(handle: int, path: Path) -> bool:
    """Whether others who open the path lock the same file; temporary folders are swept."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
