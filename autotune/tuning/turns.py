"""One tuner at a time searches for a program in a database; others wait, and use its trials.

Two that searched at once would propose the same candidates, and measure them twice. A lock on a
file beside the database tells who is first; the system releases the lock of a process that dies,
and the next one to search in the database removes its file. Who is told to end (SIGTERM) removes it
itself, and its folders and workers, unless the program has a handler of its own for that.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

POLL_SECONDS = 0.1
DIGEST = 8
"""Bytes of the hash in the name of a lock."""


@contextmanager
def search_turn(
    database: Path, name: str, key: tuple[str, ...], report: Callable[[str], None]
) -> Iterator[None]:
    """Hold the lock on what `key` names in a database; `report` is told once of a wait.

    Where no file can be made or locked, there is no lock. A database in memory needs none.
    """
    with _ending_in_order():
        if str(database) == ":memory:":
            yield
            return
        path = _lock_path(database, key)
        _remove_abandoned(database, path)
        handle = _wait(path, name, report)
        try:
            yield
        finally:
            if handle is not None:
                _release(path, handle)


class _ToldToEnd(SystemExit):
    """SIGTERM came."""


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Where SIGTERM would end the process at once, it does so when what is inside has ended. Only
    the main thread gets signals."""
    usual = signal.getsignal(signal.SIGTERM)
    if usual is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    except _ToldToEnd:
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, usual)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # who is told twice ends at once
    raise _ToldToEnd(128 + number)


def _wait(path: Path, name: str, report: Callable[[str], None]) -> int | None:
    """A handle that holds the lock; None where there can be no lock."""
    told = False
    while True:
        try:
            handle = _try_lock(path)
        except (ImportError, OSError):
            return None
        if handle is not None:
            return handle
        if not told:
            report(
                f"{_owner(path)} is searching for {name!r} in this database: waiting for it, then "
                "using its trials"
            )
        told = True
        time.sleep(POLL_SECONDS)


def _lock_path(database: Path, key: tuple[str, ...]) -> Path:
    """The same file whatever name the database is opened by."""
    place = database.resolve()
    digest = hashlib.blake2b("\n".join(key).encode(), digest_size=DIGEST).hexdigest()
    return place.with_name(f"{place.name}.{digest}.lock")


def _remove_abandoned(database: Path, own: Path) -> None:
    """Remove the files of processes that are gone and searched for other things than `own`."""
    place = database.resolve()
    name = re.compile(rf"{re.escape(place.name)}\.[0-9a-f]{{{2 * DIGEST}}}\.lock")
    with suppress(ImportError, OSError):  # then there is no lock
        for entry in os.listdir(place.parent):
            path = place.with_name(entry)
            if path == own or not name.fullmatch(entry):
                continue
            with suppress(OSError):  # it is another user's, or gone this moment
                handle = _try_lock(path, os.O_RDWR)
                if handle is not None:
                    _release(path, handle)


def _try_lock(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int | None:
    """A handle that holds the lock; None where another one has it."""
    import fcntl

    handle = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            os.truncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            return handle
    except (BlockingIOError, FileNotFoundError):  # the owner removes the file when it is done
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _release(path: Path, handle: int) -> None:
    """Remove the file of a lock that is held, and let it go."""
    with suppress(OSError):  # what stays there is locked by nobody: the next search takes it
        path.unlink()
    os.close(handle)


def _owner(path: Path) -> str:
    try:
        return f"another tuner (process {int(path.read_text())})"
    except (OSError, ValueError):
        return "another tuner"
