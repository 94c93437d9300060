"""Results that are numbers of rows, such as the mean and the spread that a norm returns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from autotune.rules.group import instances, stores_of
from schedule import Schedule, ScheduleError
from tensorir import IterKind


def results_of_rows(sch: Schedule, last: str) -> tuple[list[str], list[str]]:
    """The results that other stages read, and elementwise ones that none does, which have less
    elements than that of the last stage."""
    copied, ends = list[str](), list[str]()
    most = instances(sch.state.block(last))
    for name in map(str, sch.get_blocks()):
        node = sch.state.block(name)
        result = any(store.buffer in sch.func.params for store in stores_of(node))
        if name == last or not result or instances(node, IterKind.SPATIAL) >= most:
            continue
        if sch.get_consumers(name):
            with suppress(ScheduleError):  # several stages make it, as first rows and steps do
                results_apart(sch.copy(), [name])
                copied.append(name)
        elif not node.is_reduction:
            ends.append(name)
    return copied, ends


def results_apart(sch: Schedule, names: Sequence[str]) -> tuple[str, ...]:
    """Let those that read some results read what these are copied of; returns what copies."""
    return tuple(
        str(sch.cache_write(name, 0, "global", sch.get_consumers(name))) for name in names
    )
