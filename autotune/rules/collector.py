"""Collections of garbage wait while a schedule is planned.

Nearly all that is made meanwhile stays, such as expressions and what was concluded of them, and
sets off collections that look through all that the process has, for some thousands of objects: one
takes as long as a plan does.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Paused:
    """How many threads plan, and whether garbage was collected when the first one began."""

    lock = Lock()
    threads = 0
    before = False


@contextmanager
def paused() -> Iterator[None]:
    """No collection begins until the last thread that is inside leaves."""
    with _Paused.lock:
        if not _Paused.threads:
            _Paused.before = gc.isenabled()
            gc.disable()
        _Paused.threads += 1
    try:
        yield
    finally:
        with _Paused.lock:
            _Paused.threads -= 1
            if not _Paused.threads and _Paused.before:
                gc.enable()
