"""cache_write: write a buffer through a copy."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import all_blocks, read, readers, written
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import (
    check_scope,
    copy_nest,
    fills_all,
    pick,
    place_beside,
    require_whole,
    top_statement,
)
from schedule.rewrite.placement import names_in
from schedule.state import BlockRef, State, add_buffers
from tensorir import Block, Buffer, replace, replace_buffers


@primitive
def cache_write(
    state: State,
    block: str,
    buffer: str | int = 0,
    scope: str = "local",
    consumer_blocks: Sequence[str] = (),
) -> tuple[State, BlockRef]:
    """Make `block` write `buffer` through a copy in `scope`, and return the block that copies back.

    With reverse_compute_at of the copying block, the part that is being worked on stays in
    registers or cache. `buffer` is a name or the position among the buffers that the block writes.
    Those of `consumer_blocks` read the copy then, and wait for no result.

    rewrite:  cache_write("C", "C", "local")
        for i in range(8):            for i in range(8):
            C[i] = f(A[i])    ->          C_local[i] = f(A[i])
                                      for ax0 in range(8):
                                          C[ax0] = C_local[ax0]

    requires:
        - the block, and no other, writes `buffer`
        - no block of the same outermost nest reads `buffer`
        - the block computes `buffer` as a whole, not from what it holds before
        - the consumers read `buffer`, after the block
        - `scope` is one of global, shared, local
    """
    node = state.block(block)
    check_scope(scope, block)
    target = pick(written(node), buffer, block, "writes")
    require_sole_writer(state, target, block, hint="cache_write before decompose_reduction")
    require(
        target not in read(node) or node.init is not None,
        block,
        f"block {block!r} updates what is in {target.name!r} before",
    )
    inside = names_in(top_statement(state, block))
    near = [name for name in readers(state, target) if name in inside]
    require(
        not near,
        block,
        f"block {(near or [''])[0]!r} reads {target.name!r} in the same nest",
        "cache_write before compute_at or reverse_compute_at",
    )
    require_whole(state, target, block)
    require(
        fills_all(state, target, [block]),
        block,
        f"block {block!r} writes a part of {target.name!r} only, and the copy would be whole",
    )
    _require_readers(state, node, target, consumer_blocks)
    name = state.fresh_buffer(f"{target.name}_{scope}")
    copy = Buffer(name, target.shape, target.dtype, scope)
    copier = state.fresh_block(name)
    changed = _redirected(state, (block, *consumer_blocks), target, copy)
    nest = copy_nest(changed, copier, copy, target)
    placed = place_beside(changed, top_statement(changed, block), nest, before=False)
    return placed, BlockRef(copier)


def _require_readers(state: State, node: Block, target: Buffer, consumers: Sequence[str]) -> None:
    order = [each.name for each in all_blocks(state)]
    later = order[order.index(node.name) + 1 :]
    for user in consumers:
        reads = user in later and target in read(state.block(user))
        told = f"block {user!r} does not read {target.name!r} after block {node.name!r}"
        require(reads, user, told)


def _redirected(state: State, blocks: Sequence[str], target: Buffer, copy: Buffer) -> State:
    """The program with all uses that blocks make of `target` moved to `copy`."""
    for name in blocks:
        node = state.block(name)
        body = replace_buffers(node.body, {target: copy})
        init = None if node.init is None else replace_buffers(node.init, {target: copy})
        state = state.replace(state.block_path(name), replace(node, body=body, init=init))
    return State(add_buffers(state.func, copy), state)
