"""Whether the output of a stage is written past the caches."""

from __future__ import annotations

from math import prod

from autotune.rules.group import instances, output_store, size
from autotune.rules.plan import Options
from schedule import Schedule
from tensorir import Buffer, Cpu, body_loads, dtype

STREAM_FROM = 1 << 20
"""Bytes of an output from which on it may be written past the caches."""


STORES = ("plain", "stream")


def may_stream(sch: Schedule, block: str) -> bool:
    """Whether a stage writes an output so large."""
    return _output_bytes(sch, block) >= STREAM_FROM


def stores(sch: Schedule, block: str, cpu: Cpu) -> Options:
    """The option `stores` of a stage that writes a large output; else none."""
    wanted = "stream" if stream_by_default(sch, block, cpu) else "plain"
    return {"stores": (STORES, wanted)} if may_stream(sch, block) else {}


def stream_by_default(sch: Schedule, block: str, cpu: Cpu) -> bool:
    """Whether streaming a large output pays without being measured.

    It does where the last cache does not hold what the stage reads and writes; where it does, the
    next call, or what reads the output, finds it there, and writing takes half the time.
    """
    node = sch.state.block(block)
    read = {load.buffer for load in body_loads(node)}
    touched = sum(min(_bytes(b), instances(node) * dtype.itemsize(b.dtype)) for b in read)
    written = _output_bytes(sch, block)
    return written >= STREAM_FROM and written + touched >= cpu.l3_bytes


def _output_bytes(sch: Schedule, block: str) -> int:
    """The size of the output that a block writes; 0 where others of the function use it."""
    store = output_store(sch.state.block(block))
    if store is None or store.buffer not in sch.func.params or sch.get_consumers(block):
        return 0
    return _bytes(store.buffer)


def _bytes(buffer: Buffer) -> int:
    return prod(size(s) for s in buffer.shape) * dtype.itemsize(buffer.dtype)
