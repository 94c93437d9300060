"""Drafts: what kernels ask for by formulas of sizes, before any step is taken.

A draft knows the bytes that have to be moved and how often threads wait one after the other, and
nothing of banks or instructions. That is enough to tell where multiprocessors stand idle, and where
memory takes most of the time whatever else is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, TypeVar

from autotune.rules.group import instances, size
from schedule import Schedule
from tensorir import Buffer, Gpu, accesses, dtype

if TYPE_CHECKING:
    from autotune.gpu.work import Work

T = TypeVar("T")

Draft = Sequence["Work"]
"""The kernels of one plan, as far as formulas tell."""

APART = 1.25
"""Times the least time of all drafts from which on one is not worth making."""

SURE = 1.75
"""Times that memory takes as long as all else of a draft from which on it is what binds."""

WARP_WAITS, BLOCK_WAITS, THREAD_WAITS = 2.5, 1.0, 2.0
"""How often threads of a warp wait for each other to add up what they have; those of up to NEAR
warps besides, and once more each time that there are twice as many; and those that have a row each
for what they copy together."""

NEAR = 8
"""How many warps add up what they have as fast as two do."""

WRITTEN_OUT = 64
"""Elements of a thread up to which all of its loads are under way at once."""


def quickest(
    points: Sequence[T], drafts: Sequence[Draft], gpu: Gpu
) -> tuple[list[T], list[T], list[float]]:
    """The points that are worth making, by the draft of each, the others, and what the first ones
    take by their drafts: the first that may take the least time, if it moves as few bytes as any,
    in one kernel that memory surely binds, else all that may."""
    from autotune.gpu.work import cycles

    times = [cycles(draft, gpu) for draft in drafts]
    least = min(times, default=0.0)
    near = [n for n, time in enumerate(times) if time <= APART * least]
    bytes_of = [sum(work.bytes for work in drafts[n]) for n in near]
    if near and bytes_of[0] <= min(bytes_of) and _is_sure(drafts[near[0]], gpu):
        near = near[:1]
    left = [point for n, point in enumerate(points) if n not in near]
    return [points[n] for n in near], left, [times[n] for n in near]


def _is_sure(draft: Draft, gpu: Gpu) -> bool:
    if len(draft) != 1:
        return False
    limits = draft[0].cycles_by_limit(gpu)
    memory = limits.pop("memory", 0.0)
    return memory >= SURE * max(limits.values())


def in_rows(
    gpu: Gpu, bytes_moved: float, rows: int, terms: int, *, by: str, warps: int, turns: int = 1,
    parts: int = 1, sums: int = 1, loops: bool = False, piece: int = 0, again: float = 0.0,
) -> list[Work]:  # fmt: skip
    """What threads ask for that share the terms of rows, as `library.gpu.rows` has them: for so
    many sums one after the other, of so many parts of a row, which a second kernel adds up. Few
    terms are written out, unless there are `loops` over them, of a `piece` in each step if given.
    Bytes that are read `again` are in a cache.
    """
    from autotune.gpu.waits import UNROLLED
    from autotune.gpu.work import Work

    among = BLOCK_WAITS * max(1, (warps // NEAR).bit_length()) if warps > 1 else 0.0
    ways = {
        "warp": (warps, gpu.warp, WARP_WAITS * sums), "lanes": (gpu.warp, warps, among * sums),
        "thread": (gpu.warp * warps, 1, THREAD_WAITS),
    }  # fmt: skip
    block = 1, gpu.warp * warps, (WARP_WAITS + among) * sums
    at_once, share, waits = ways.get(by, block)
    each = ceil(terms / (share * parts))
    rounds = 1 if each <= WRITTEN_OUT and not loops else ceil(each / (piece or UNROLLED))
    first = Work(
        ceil(rows / (at_once * turns)) * parts, gpu.warp * warps, bytes=bytes_moved,
        sectors=(bytes_moved + again) / Gpu.sector_bytes, rounds=turns * rounds,
        waits=turns * waits * (terms > 1),
    )  # fmt: skip
    return [first] if parts == 1 else [first, Work(1, gpu.warp)]


def moved(
    sch: Schedule, names: Collection[str], others: Collection[str] | None = None
) -> int:
    """Bytes that one kernel of some stages moves at least: what they have in common with arguments
    and with `others`, all that there are if not given, each element once."""
    touched, outside = Counter[Buffer](), set(sch.func.params)
    for block in map(sch.state.block, names):
        for buffer in {a.buffer for a in accesses(block)}:
            touched[buffer] += instances(block)  # elements, at the most
    for name in {*(sch.get_blocks() if others is None else others)} - {*names}:
        outside |= {a.buffer for a in accesses(sch.state.block(name))}
    return sum(
        min(count, prod(map(size, buffer.shape))) * dtype.itemsize(buffer.dtype)
        for buffer, count in touched.items()
        if buffer in outside
    )
