"""How often Python looks for objects that refer to each other in circles while schedules are made.

It does after every 700 new objects, and over and over at all that was imported. Schedules and their
programs are trees of thousands of objects without circles that live on: looking took an eighth of
the time of a default schedule, and of making and lowering candidates. Of what is new when one is
made, about one object in twenty is in a circle: all of it counts as old from then on, and all
objects are looked at together, but seldom.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

COLLECTED = 100_000
"""New objects after which circles are looked for."""

KEPT = 1_000_000
"""Objects that count as old, with nobody having looked, after which circles are looked for among
all there are: some ten megabytes of these at the most."""

_lock = Lock()
_found: list[tuple[int, int, int]] = []
"""The thresholds that were there before, once for each that is inside."""


class _Unseen:
    """Objects that count as old and that nobody has looked at, and how often all were then."""

    count = 0
    looks = 0


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
                if before[0] and gc.isenabled():
                    _let_be()
                gc.set_threshold(*before)


def _let_be() -> None:
    """Let new objects count as old, for otherwise all of them would be looked at at once; all there
    are are looked at where these have become many. Those that somebody froze stay so."""
    looks = gc.get_stats()[-1]["collections"]
    if looks != _Unseen.looks:
        _Unseen.count, _Unseen.looks = 0, looks
    _Unseen.count += gc.get_count()[0]
    if _Unseen.count > KEPT:
        gc.collect()
    elif not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
