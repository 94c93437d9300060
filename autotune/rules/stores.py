"""Whether the output of a stage is written past the caches."""

from __future__ import annotations

from math import prod

from autotune.choices import Categorical
from autotune.rules.group import output_store, size
from schedule import Schedule
from tensorir import dtype

STREAM_FROM = 1 << 20
"""Bytes of an output from which on it may be written past the caches."""

STREAM_BY_DEFAULT = 1 << 24
"""Bytes of an output that is unlikely to be in any cache when it is read."""


def stores_choice(sch: Schedule, block: str) -> tuple[Categorical, ...]:
    """The choice `<block>.stores` of a stage that writes a large output; else none."""
    if _output_bytes(sch, block) < STREAM_FROM:
        return ()
    return (Categorical(f"{block}.stores", ("plain", "stream")),)


def stream_by_default(sch: Schedule, block: str) -> bool:
    """Whether the output is so large that streaming it pays without being measured."""
    return _output_bytes(sch, block) >= STREAM_BY_DEFAULT


def _output_bytes(sch: Schedule, block: str) -> int:
    """The size of the output that a block writes; 0 where others of the function use it."""
    store = output_store(sch.state.block(block))
    if store is None or store.buffer not in sch.func.params or sch.get_consumers(block):
        return 0
    return prod(size(s) for s in store.buffer.shape) * dtype.itemsize(store.buffer.dtype)
