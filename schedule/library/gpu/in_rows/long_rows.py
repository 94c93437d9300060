"""long_rows: what is computed of few long rows, each of them by many blocks of threads."""

from __future__ import annotations

from collections.abc import Collection

from schedule.errors import require
from schedule.library.all_or_nothing import all_or_nothing
from schedule.library.gpu.columns import columns
from schedule.library.gpu.elementwise import elementwise
from schedule.library.gpu.in_rows.stages import chain_of
from schedule.library.gpu.steps import reduction_of
from schedule.library.gpu.whole import whole
from schedule.schedule import Schedule
from tensorir import Gpu, checked

ITEMS = 8
"""Pieces of the result of a thread, which reads numbers of the row once for them."""

WAYS = ("block", "lanes")


@checked
def long_rows(
    sch: Schedule,
    block: str,
    *,
    by: str = "block",
    blocks: int = 64,
    warps: int = 8,
    stages: Collection[str] | None = None,
) -> None:
    """Schedule what is computed of the elements of a row and of reductions of that row, such as
    softmax and norms, for a GPU that has more multiprocessors than there are rows; `block` is the
    last one of them.

    Each reduction is two kernels (`whole`, or `columns` where neighbours in memory are of different
    rows), and `block` is one; what else is computed of a row is
    computed again where it is used. So a row is read once for each reduction and once for the
    result, by all of the device.

    by      what shares a row in a reduction: "block", whose threads have its elements, or "lanes",
            which have rows side by side, and its warps the elements
    blocks  of threads that share a row in a reduction
    warps   of a block
    stages  the blocks before it that are computed with it; None is all that it alone uses

    Raises ScheduleError where a block stores elsewhere than at its own variables, or is used by
    others.
    """
    with all_or_nothing(sch, f"gpu.long_rows({str(block)!r})"):
        require(by in WAYS, block, f"by={by!r} is not one of {', '.join(WAYS)}")
        chain = chain_of(sch, block, stages)
        sums = [name for name in chain if sch.state.block(name).is_reduction]
        for name in chain[:-1]:
            if name not in sums:
                sch.compute_inline(name)
        for name in sums:
            if by == "lanes":
                _by_lanes(sch, name, blocks, warps)
            else:
                whole(sch, name, blocks=blocks, warps=warps)
        if chain[-1] not in sums:
            elementwise(sch, block, threads=warps * Gpu.warp, items=ITEMS)


def _by_lanes(sch: Schedule, name: str, blocks: int, warps: int) -> None:
    """Sums by lanes, of whole rows of columns where these are no multiple of a warp."""
    outer, _ = reduction_of(sch, name)
    count = sch.state.loop(outer[-1]).const_extent if outer else None
    full = count is not None and count % Gpu.warp > 0 and 2 * count <= Gpu.warp * warps
    columns(sch, name, warps=warps, parts=blocks, whole=full)
