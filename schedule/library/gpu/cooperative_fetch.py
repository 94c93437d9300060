"""cooperative_fetch: all threads of a block copy a tile together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schedule.errors import Refusal
from schedule.library.all_or_nothing import all_or_nothing
from schedule.rewrite.caching import top_statement
from tensorir import REAL_AXES, For, TensorIRError, checked, walk

if TYPE_CHECKING:
    from schedule.schedule import Schedule
    from schedule.state import LoopRef

ORDER = ("threadIdx.z", "threadIdx.y", "threadIdx.x", "warp", "lane")
"""Axes of threads, the one whose neighbours are neighbours in a warp last."""


@checked
def cooperative_fetch(
    sch: Schedule, block: str, threads: Mapping[str, int] | int | None = None, vector: int = 1
) -> list[LoopRef]:
    """Let all threads of a block of threads run the instances of `block`, `vector` elements in a
    row each; returns the loops that came of it, outermost first.

    `block` is a copy, computed in a loop that has other blocks inside; its own loops are those
    inside of that. Its last loop is split by `vector`, the others become one, which threads share,
    those side by side taking elements side by side; what is left runs serially around them, and
    the vector is vectorized. `threads` has the extent of each axis, in any order, or is the number
    of threadIdx.x; left out, it is what the other loops of the kernel have. Extents need not
    divide. Steps are ordinary ones of the trace; if one is refused, none is taken.
    """
    with all_or_nothing(sch, f"cooperative_fetch({block!r})"):
        return _fetch(sch, block, _axes(sch, block, threads), vector)


def _axes(
    sch: Schedule, block: str, threads: Mapping[str, int] | int | None
) -> list[tuple[str, int]]:
    if threads is not None and not isinstance(threads, Mapping):
        return [("threadIdx.x", int(threads))]
    given = dict(threads or {})
    unknown = [axis for axis in given if axis not in REAL_AXES]
    if unknown:
        known = ", ".join(REAL_AXES)
        raise TensorIRError(f"{unknown[0]!r} is no axis of threads of a block; axes are {known}")
    if threads is None:
        for stmt in walk(top_statement(sch.state, block)):
            if isinstance(stmt, For) and stmt.thread in REAL_AXES and stmt.const_extent:
                given.setdefault(str(stmt.thread), stmt.const_extent)
    if not given:
        raise Refusal(
            f"the kernel of block {block!r} has no loops over threads yet; give threads, as in "
            'threads={"threadIdx.x": 256}'
        )
    return [(axis, given[axis]) for axis in ORDER if axis in given]


def _fetch(
    sch: Schedule, block: str, axes: list[tuple[str, int]], vector: int
) -> list[LoopRef]:
    loops = split_for_threads(sch, block, [size for _, size in axes], vector)
    for loop, (axis, _) in zip(loops[1:], axes):
        sch.bind(loop, axis)
    if vector > 1:
        sch.vectorize(loops[-1])
    return loops


def split_for_threads(
    sch: Schedule, block: str, threads: Sequence[int], vector: int
) -> list[LoopRef]:
    """The loops of a copy as `cooperative_fetch` makes them, before they are bound: what runs
    serially, the axes of threads, and the vector if there is one."""
    around = sch.get_loops(block)
    own = [loop for loop in around if list(sch.get_child_blocks(loop)) == [block]]
    if not own:
        own = [sch.add_unit_loop(block)]
    inner: list[LoopRef] = []
    if vector > 1:
        last, lanes = sch.split(own[-1], [None, vector])
        own, inner = [*own[:-1], last], [lanes]
    fused = sch.fuse(*own)
    loops = list(sch.split(fused, [None, *threads]))
    return [*loops, *inner]
