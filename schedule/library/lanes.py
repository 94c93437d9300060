"""Steps that library schedules share: channels in the lanes of vectors, register tiles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tensorir import (
    IterVar,
    Load,
    Store,
    TensorIRError,
    int_value,
    loads,
    stmt_exprs,
    variables,
    walk,
)

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef


COLUMNS = 2
"""Most vectors in a row of a register tile. gcc 12 keeps what belongs to each of them (operands, a
bias) in registers, and then has too few for the sums: 14 x 2 is faster than 7 x 4 for that."""


SHY = (range(19, 28), 1.35)
"""Sums of tiles that often spill, of 32 registers, and what that costs: rows of 20, 32, 36 or 64
pixels take 1.35 to 1.5 times as long in tiles of 10 to 13 as in 7 to 9. Tiles of 14 x 2 do not: gcc
allocates registers for a loop by itself (-fira-region=mixed) only where it needs nearly all."""

SHY_ALONE = (range(24, 27), 1.15)
"""The same of tiles that are alone in a row: 12 and 13 pixels take 1.14 to 1.45 times as long as in
two tiles of 6 or 7."""


def constant_size(it: IterVar, block: str) -> int:
    """The extent of a block variable; TensorIRError where it is symbolic."""
    size = int_value(it.extent)
    if size is None:
        raise TensorIRError(
            f"{it.var.name!r} of block {block!r} has the symbolic extent {it.extent!r}; "
            "library schedules need numbers, so build the program with constant sizes"
        )
    return size


def stored_buffer(sch: Schedule, block: str) -> str:
    """The name of the one buffer that a block stores to; TensorIRError where there are several."""
    body = sch.state.block(block).body
    if not isinstance(body, Store):
        raise TensorIRError(f"block {block!r} stores more than one value; schedule it by hand")
    return body.buffer.name


def read_by(sch: Schedule, block: str) -> list[Load]:
    """The loads of a block from buffers that it does not store to, in the order of the text."""
    own = stored_buffer(sch, block)
    found: dict[Load, None] = {}
    for stmt in walk(sch.state.block(block)):
        for e in stmt_exprs(stmt):
            found.update((load, None) for load in loads(e) if load.buffer.name != own)
    return list(found)


def put_in_lanes(
    sch: Schedule,
    block: str,
    indices: str,
    channel: str,
    lanes: int,
    size: int,
    at: int = -1,
    pad: bool = False,
) -> None:
    """Lay out what `block` stores with `channel` last: in blocks of `lanes`, if that divides it.

    With `pad` in any case, the last block filled up with zeros. `indices` are the dimensions and
    how they are kept, "n, c, h, w" or "n, c, h, w: n, c, h * 9 + w". The number of the block stands
    where the channel was, or at position `at`.
    """
    names, _, kept = indices.partition(": ")
    parts = (kept or names).split(", ")
    rest = [part for part in parts if part != channel]
    if size <= lanes or size % lanes and not pad:
        new = [*rest, channel]
    else:
        place = parts.index(channel) if at < 0 else at
        new = [*rest[:place], f"{channel} // {lanes}", *rest[place:], f"{channel} % {lanes}"]
    relayout(sch, block, f"{names}: {', '.join(new)}", 0.0 if pad else None)


def relayout(sch: Schedule, block: str, indices: str, pad_value: float | None = None) -> None:
    """transform_layout of what `block` stores; `indices` may have the names of symbolic sizes."""
    taken = {var.name for var in sch.func.free_vars}
    text = re.sub(r"[a-z]\w*", lambda found: found[0] + "_at" * (found[0] in taken), indices)
    sch.transform_layout(block, stored_buffer(sch, block), text, pad_value)


def whole_vectors(sch: Schedule, block: str, lanes: int) -> None:
    """Rows of what `block` stores begin with a vector: the last one of a row may be part of one.

    Sums stay in registers only if each access is a whole vector of its own.
    """
    sch.storage_align(block, stored_buffer(sch, block), -2, lanes)


def own_loops(sch: Schedule, block: str) -> dict[str, LoopRef]:
    """From each variable of a block, without the leading v, to the innermost loop it depends on.

    Of the loops that hold no other block.
    """
    around = [loop for loop in sch.get_loops(block) if len(sch.get_child_blocks(loop)) == 1]
    found: dict[str, LoopRef] = {}
    for it in sch.state.block(block).iters:
        used = {var.name for var in variables(it.binding)}
        for loop in around:
            if loop in used:
                found[it.var.name.removeprefix("v")] = loop
    return found


def loop_of(sch: Schedule, block: str, own: dict[str, LoopRef], *names: str) -> LoopRef:
    """The loop of the first of the variables that has one; a new loop of extent 1 if none has."""
    return next((own[name] for name in names if name in own), None) or sch.add_unit_loop(block)


def lane_loops(
    sch: Schedule, block: str, own: dict[str, LoopRef], channel: str, lanes: int
) -> tuple[LoopRef, LoopRef]:
    """The loops over blocks of channels and over the lanes, as `put_in_lanes` laid them out."""
    if f"{channel}_1" in own:
        lane = own[f"{channel}_1"]
        outer = own.get(f"{channel}_0", lane)
        if f"{channel}_0" not in own or outer != lane:
            return outer, lane
        return split_at_most(sch, lane, lanes)
    return split_at_most(sch, loop_of(sch, block, own, channel), lanes)


def split_at_most(sch: Schedule, loop: LoopRef, factor: int) -> tuple[LoopRef, LoopRef]:
    """Split off `factor` iterations, or all there are; both loops exist in any case."""
    extent = sch.state.loop(loop).const_extent
    outer, inner = sch.split(
        loop, [None, factor if extent is None else max(1, min(factor, extent))]
    )
    return outer, inner


def tile_cost(rows: int, vectors: int, registers: int, fetch: float = 0.5) -> float:
    """Multiply-adds of one vector that a step of a register tile takes as long as.

    Those of the tile, half of one for the operand of each row, and `fetch` for that of each vector.
    Beside the sums, registers hold the operand of each column and one of a row; a sum for which
    none is left is loaded and stored in each step, which makes a chain of these as slow as four
    multiply-adds.
    """
    if not rows or not vectors:
        return 0.0
    spilled = 4 * max(0, (rows + 1) * vectors + 1 - registers)
    return max(rows * vectors, 8) + rows / 2 + vectors * fetch + spilled


def register_tile(
    rows: int, vectors: int, registers: int, streamed: bool = False, nested: bool = False,
    whole: bool = False,
) -> tuple[int, int, float]:  # fmt: skip
    """Rows and vectors of the register tile for `rows` x `vectors` outputs, and its cost.

    The cost is in multiply-adds of one vector for each reduction step and vector of outputs, as
    `tile_cost` has it, with more for vectors that are `streamed` from beyond the second-level
    cache. Remainders count as they are run. With `nested`, the sums run over several loops: gcc 12
    often spills sums of such tiles that fill most of the registers, but not all (SHY). With
    `whole`, tiles have as many vectors each: their number divides `vectors`.
    """
    best: tuple[float, int, int] | None = None

    def cost(height: int, width: int) -> float:
        return tile_cost(height, width, registers, 1.5 if streamed else 0.5)

    for width in range(1, min(COLUMNS, vectors) + 1):
        most = registers if registers >= 32 else registers - 1 - width
        panels, last = divmod(vectors, width)
        if whole and last:
            continue
        for height in range(1, min(rows, most // width) + 1):
            blocks, rest = divmod(rows, height)
            total = panels * (blocks * cost(height, width) + cost(rest, width))
            total += blocks * cost(height, last) + cost(rest, last)
            sums, penalty = SHY if rows > height else SHY_ALONE
            if nested and height * width in sums and registers >= 32:
                total *= penalty
            total *= 1.03 if last else 1.0  # panels of two sizes are two pieces of code
            if best is None or total < best[0]:
                best = (total, height, width)
    assert best is not None  # a tile of 1 x 1 fits into any registers
    return best[1], best[2], best[0] / vectors
