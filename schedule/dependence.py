"""Which loops carry a dependence: an iteration that needs, or overwrites, what another one made.

Iterations of a loop are independent when every block below it feeds the loop into independent
(spatial) variables only, and every buffer that outlives an iteration is touched by each iteration
in places of its own. The second is proved on the digits of the index expressions: an index
`i_0 * 16 + i_1` with i_1 < 16 has the digit i_0 at position 16, so equal indices mean equal i_0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schedule.analysis import Access, accesses, blocks_below, feeds
from schedule.errors import Illegal
from schedule.state import State, extents, loops_below
from tensorir import Analyzer, Block, Buffer, Digit, Expr, For, IterKind, Var, decompose, determines


def carried_dependence(state: State, loop: str) -> Illegal | None:
    """Why iterations of `loop` may not run at once or in another order; None if they may."""
    node = state.loop(loop)
    for block in blocks_below(node):
        if IterKind.REDUCE in feeds(block, node.var):
            return Illegal(
                node.name,
                f"loop {node.name!r} is a reduction of block {block.name!r}",
                "rfactor it to make its iterations independent",
            )
    return shared_conflict(state, node)


def shared_conflict(state: State, node: For) -> Illegal | None:
    """Why two iterations of a loop may touch one element, one of them writing; None if not.

    Updates of a reduction by its own block do not count: they commute.
    """
    below = blocks_below(node)
    outside = state.loops_outside(node.name)
    analyzer = state.analyzer([*outside, *loops_below(node)])
    inner = extents(loops_below(node))
    touched: dict[Buffer, list[Access]] = {}
    for block in below:
        for access in accesses(block):
            touched.setdefault(access.buffer, []).append(access)
    for buffer, found in touched.items():
        if not any(a.is_write for a in found) or private(state, buffer, below):
            continue
        culprit = _conflict(found, node, inner, analyzer)
        if culprit is not None:
            return culprit
    return None


def private(state: State, buffer: Buffer, below: Iterable[Block]) -> bool:
    """Whether every access of an intermediate buffer is by a block of `below`.

    Its memory then belongs to one iteration of the loop above those blocks.
    """
    if buffer in state.func.params:
        return False
    names = {block.name for block in below}
    for name in state.block_names():
        if name not in names and any(a.buffer is buffer for a in accesses(state.block(name))):
            return False
    return True


def _conflict(
    found: list[Access], node: For, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> Illegal | None:
    writes = [a for a in found if a.is_write]
    for write in writes:
        if _is_reduction_update(write, node):
            continue
        known = analyzer.assuming(write.block.predicate)  # of both iterations that are compared
        if not determines(write.in_loops(), node.var, inner, known):
            return Illegal(
                node.name,
                f"different iterations of loop {node.name!r} write the same elements of "
                f"{write.buffer.name!r} in block {write.block.name!r}",
            )
    for write in writes:
        for other in found:
            if other.block is write.block and (other.is_write or _same_place(other, write)):
                continue
            if not _same_slice(write, other, node, inner, analyzer):
                return Illegal(
                    node.name,
                    f"an iteration of loop {node.name!r} may touch elements of "
                    f"{write.buffer.name!r} that another one writes: block {other.block.name!r} "
                    f"uses what block {write.block.name!r} writes",
                )
    return None


def _is_reduction_update(write: Access, node: For) -> bool:
    return IterKind.REDUCE in feeds(write.block, node.var)


def _same_place(a: Access, b: Access) -> bool:
    return len(a.indices) == len(b.indices) and all(x is y for x, y in zip(a.indices, b.indices))


def _same_slice(
    a: Access, b: Access, node: For, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> bool:
    """Whether equal elements of the two accesses imply equal iterations of the loop."""
    shared: list[Digit] = []
    for left, right in zip(a.in_loops(), b.in_loops()):
        mine = _digits_at(left, node.var, inner, analyzer)
        theirs = _digits_at(right, node.var, inner, analyzer)
        shared.extend(d for d in mine if d in theirs)
    return _cover(shared, node)


def _digits_at(e: Expr, var: Var, inner: Mapping[Var, Expr], analyzer: Analyzer) -> list[Digit]:
    """The digits of `var` that can be read off `e`: nothing else overlaps their position."""
    parts = decompose(e, inner, analyzer)
    if parts is None or parts[1] != 0:
        return []
    digits = parts[0]
    found = []
    for digit in digits:
        if digit.var is not var:
            continue
        below = sum(
            d.scale * (d.extent - 1) if d.extent is not None else digit.scale
            for d in digits
            if d.scale < digit.scale
        )
        clear = below < digit.scale and all(
            digit.extent is not None and d.scale % (digit.scale * digit.extent) == 0
            for d in digits
            if d.scale >= digit.scale and d is not digit
        )
        if clear:
            found.append(digit)
    return found


def _cover(digits: list[Digit], node: For) -> bool:
    """Whether the digits of the loop's variable, taken together, give back its value."""
    reached = 1
    for digit in sorted(digits, key=lambda d: d.divisor):
        if digit.divisor > reached:
            return False
        if digit.extent is None:
            return True
        reached = max(reached, digit.divisor * digit.extent)
    size = node.const_extent
    return size is not None and reached >= size
