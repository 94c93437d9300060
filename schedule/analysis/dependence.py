"""Which loops carry a dependence: an iteration that needs, or overwrites, what another one made.

Whether two iterations touch one element is told by tensorir.analysis.dependence.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedule.analysis.coverage import covered
from schedule.errors import Illegal
from schedule.state import State, extents, loops_below
from tensorir import (
    Access,
    Block,
    Buffer,
    For,
    accesses,
    belongs_to,
    blocks_below,
    conflict,
    disjoint,
    piped,
    reduces,
)


def carried_dependence(state: State, loop: str, lanes: bool = False) -> Illegal | None:
    """Why iterations of `loop` may not run at once or in another order; None if they may.

    The iterations of a vectorized loop, its `lanes`, share even the memory of intermediates that
    are used inside of it only: that is allocated around the loop.
    """
    node = state.loop(loop)
    for block in blocks_below(node):
        if reduces(block, node.var):
            return Illegal(
                node.name,
                f"loop {node.name!r} is a reduction of block {block.name!r}",
                "rfactor it to make its iterations independent",
            )
    return shared_conflict(state, node, lanes)


def shared_conflict(state: State, node: For, lanes: bool = False) -> Illegal | None:
    """Why two iterations of a loop may touch one element, one of them writing; None if not.

    Updates of a reduction by its own block do not count: they commute.
    """
    return conflict_within(state, node, node, lanes)


def conflict_within(
    state: State, node: For, outermost: For, lanes: bool = False, keeps: bool = True
) -> Illegal | None:
    """shared_conflict for iterations of `node` that differ in the loops from `outermost` inwards,
    and agree in those outside of it. Without `keeps` memory that each iteration has to itself
    counts as well: then iterations that touch one element are one iteration."""
    below = blocks_below(node)
    outside = state.loops_outside(outermost.name)
    varying = loops_below(outermost)
    analyzer = state.analyzer([*outside, *varying])
    inner = extents(varying)
    touched: dict[Buffer, list[Access]] = {}
    for block in below:
        for access in accesses(block):
            touched.setdefault(access.buffer, []).append(access)
    for buffer, found in touched.items():
        if not any([a.is_write for a in found]):
            continue
        reason = conflict(found, node, inner, analyzer)
        if reason is None:
            continue
        around = (*state.loops_outside(node.name), node)
        own = keeps and not lanes and private(state, buffer, below) and not piped(around, buffer)
        if not own or not covered(state, buffer, node):
            return Illegal(node.name, reason)
    return None


def private(state: State, buffer: Buffer, below: Iterable[Block]) -> bool:
    """Whether every access of an intermediate buffer is by a block of `below`.

    Its memory then belongs to one iteration of the loop above those blocks.
    """
    if buffer in state.func.params:
        return False
    return belongs_to(buffer, below, blocks_below(state.func.body))


def meets_within(state: State, reader: str, writer: str, loop: For) -> bool:
    """Whether `reader` may read what `writer` writes while the loops around both `reader` and
    `loop` stay where they are."""
    around = state.loops_around(reader)
    shared = [f for f in state.loops_outside(loop.name) if f in around]
    varying = [*around, *loops_below(shared[-1] if shared else state.func.body)]
    inner = {f.var: f.extent for f in varying if f not in shared}
    analyzer = state.analyzer([*shared, *dict.fromkeys(f for f in varying if f not in shared)])
    made = [a for a in accesses(state.block(writer)) if a.is_write]
    return any(
        a.buffer is w.buffer and not disjoint(a, w, inner, analyzer)
        for a in accesses(state.block(reader))
        if not a.is_write
        for w in made
    )
