"""cache_read: read a buffer through a copy."""

from __future__ import annotations

from schedule.analysis import read_by_others, writers
from schedule.caching import (
    check_scope,
    copy_nest,
    pick,
    place_beside,
    require_whole,
    top_statement,
)
from schedule.errors import require
from schedule.placement import names_in
from schedule.primitive import primitive
from schedule.state import BlockRef, State, add_buffers
from tensorir import Block, Buffer, Stmt, replace, replace_buffers


@primitive
def cache_read(
    state: State, block: str, buffer: str | int, scope: str = "local"
) -> tuple[State, BlockRef]:
    """Make `block` read `buffer` through a copy in `scope`, and return the block that copies.

    The copy is of the whole buffer; compute_at then brings it to where it is used, where only the
    part needed there is copied, densely: that packs an operand. `buffer` is a name or the
    position among the buffers that the block reads.

    rewrite:  cache_read("C", "A", "local")
                                        for ax0 in range(8):
        for i in range(8):                  A_local[ax0] = A[ax0]
            C[i] = f(A[i])    ->        for i in range(8):
                                            C[i] = f(A_local[i])

    requires:
        - the block reads `buffer` and does not write it
        - no block of the same outermost nest writes `buffer`
        - `buffer` is computed as a whole
        - `scope` is one of global, shared, local
    """
    node = state.block(block)
    check_scope(scope, block)
    source = pick(read_by_others(node), buffer, block, "reads")
    anchor = top_statement(state, block)
    for writer in writers(state, source):
        require(
            writer not in names_in(anchor),
            block,
            f"block {writer!r} writes {source.name!r} in the same nest",
            "cache_read before compute_at or reverse_compute_at",
        )
    require_whole(state, source, block)
    name = state.fresh_buffer(f"{source.name}_{scope}")
    copy = Buffer(name, source.shape, source.dtype, scope)
    copier = state.fresh_block(name)
    changed = state.replace(state.block_path(block), _redirect(node, source, copy))
    changed = State(add_buffers(changed.func, copy))
    placed = place_beside(
        changed,
        top_statement(changed, block),
        copy_nest(changed, copier, source, copy),
        before=True,
    )
    return placed, BlockRef(copier)


def _redirect(node: Block, source: Buffer, copy: Buffer) -> Stmt:
    """The block, which does not write `source`, with its uses of that taken from `copy`."""
    body = replace_buffers(node.body, {source: copy})
    init = None if node.init is None else replace_buffers(node.init, {source: copy})
    return replace(node, body=body, init=init)
