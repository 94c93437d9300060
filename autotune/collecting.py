"""How often Python looks for objects that refer to each other in circles while schedules are made.

It does after every 700 new objects, and over and over at all that was imported. Schedules and their
programs are trees of thousands of objects without circles that live on: looking took an eighth of
the time of a default schedule, and of making and lowering candidates.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

COLLECTED = 100_000
"""New objects after which circles are looked for."""

_lock = Lock()
_found: list[tuple[int, int, int]] = []
"""The thresholds that were there before, once for each that is inside."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Look after every COLLECTED new objects meanwhile, whichever thread makes them, and as before
    when the last one leaves. Not at all where that is switched off."""
    with _lock:
        _found.append(_found[0] if _found else gc.get_threshold())
        first, *others = _found[0]
        if first:
            gc.set_threshold(max(first, COLLECTED), *others)
    try:
        yield
    finally:
        with _lock:
            before = _found.pop()
            if not _found:
                gc.set_threshold(*before)
