"""Copies that library schedules share: transposed ones, and padded rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.library.lanes import own_loops, read_by, split_at_most
from tensorir import int_value

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

LONGEST = 256
"""Iterations of a loop that becomes vectors without a loop around them."""


def unroll_all(sch: Schedule, *loops: LoopRef) -> None:
    for loop in loops:
        sch.unroll(loop)


def transpose_pixels(
    sch: Schedule, pixel: LoopRef, channel: LoopRef, lanes: int, vector: str
) -> None:
    """Copy a plane of pixels and channels, innermost loops of a block, tile by tile.

    Vectors lie along `vector`, "pixel" or "channel", where the stores are contiguous; loads must be
    so along the other one. Pixels that fill no tile are copied after the others, in smaller tiles.
    """
    sch.reorder(pixel, channel)
    extent = sch.state.loop(pixel).const_extent or 0
    rest = extent % lanes
    parts = sch.partition(pixel, [extent - rest, rest]) if rest and rest < extent else (pixel,)
    for part in parts:
        (block,) = sch.get_child_blocks(part)
        inner = sch.get_loops(block)[-1]
        _, tile = split_at_most(sch, part, lanes)
        if vector == "pixel":
            sch.reorder(inner, tile)
        sch.unroll(inner if vector == "pixel" else tile)
        sch.vectorize(tile if vector == "pixel" else inner)


def copy_rows(sch: Schedule, block: str, loop: LoopRef | None, padded: bool) -> None:
    """Copy rows in vectors; of a `padded` image apart from what lies before and after them.

    `loop` is the innermost one of `block`. In vectors that are partly padding, each lane would have
    to look for itself.
    """
    loop = loop or sch.add_unit_loop(block)
    extent = sch.state.loop(loop).const_extent or 0
    before, inside = _inside(sch, block) if padded else (0, extent)
    whole = min(inside, extent - before)
    if own_loops(sch, block).get("w") == loop and 0 <= before and 0 < whole < extent:
        parts = [size for size in (before, whole, extent - before - whole) if size]
        loop = sch.partition(loop, parts)[1 if before else 0]
    sch.vectorize(split_at_most(sch, loop, LONGEST)[1])


def _inside(sch: Schedule, block: str) -> tuple[int, int]:
    """How far a row is moved by padding, and how long it is; (0, 0) where that is not plain."""
    loads = read_by(sch, block)
    column = next((it.var for it in sch.state.block(block).iters if it.var.name == "vw"), None)
    if len(loads) != 1 or column is None:
        return 0, 0
    moved = int_value(sch.state.analyzer().simplify(column - loads[0].indices[-1]))
    return (0, 0) if moved is None else (moved, int_value(loads[0].buffer.shape[-1]) or 0)
