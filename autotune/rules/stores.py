"""Whether the output of a stage is written past the caches."""

from __future__ import annotations

from autotune.rules.group import bytes_of, moved_bytes, output_store
from autotune.rules.plan import Options
from schedule import Schedule, writers
from tensorir import Cpu

STREAM_FROM = 1 << 20
"""Bytes of an output from which on it may be written past the caches."""
STORES = ("plain", "stream")


def may_stream(sch: Schedule, block: str) -> bool:
    """Whether a stage writes an output so large, which no other one uses."""
    store = output_store(sch.state.block(block))
    if store is None or store.buffer not in sch.func.params or sch.get_consumers(block):
        return False
    return bytes_of(store.buffer) >= STREAM_FROM and writers(sch.state, store.buffer) == [block]


def stores(sch: Schedule, block: str, cpu: Cpu, whole: bool = True) -> Options:
    """The option `stores` of a stage that writes a large output, in `whole` lines or not, and reads
    none of it back; else none."""
    asked = may_stream(sch, block) and not sch.state.block(block).is_reduction
    wanted = STORES[whole and stream_by_default(sch, block, cpu)]
    return {"stores": (STORES, wanted)} if asked else {}


def stream_by_default(sch: Schedule, block: str, cpu: Cpu) -> bool:
    """Whether streaming a large output pays without being measured.

    It does where the caches do not hold what the stage reads and writes; where they do, the next
    call, or what reads the output, finds it there, and writing takes half the time.
    """
    return may_stream(sch, block) and moved_bytes(sch.state.block(block)) > cpu.held_bytes
