"""cache_write: write a buffer through a copy."""

from __future__ import annotations

from schedule.analysis.uses import plain_store, read, readers, written
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import (
    check_scope,
    copy_nest,
    pick,
    place_beside,
    require_whole,
    top_statement,
)
from schedule.rewrite.placement import names_in
from schedule.state import BlockRef, State, add_buffers
from tensorir import Block, Buffer, fills, replace, replace_buffers


@primitive
def cache_write(
    state: State, block: str, buffer: str | int = 0, scope: str = "local"
) -> tuple[State, BlockRef]:
    """Make `block` write `buffer` through a copy in `scope`, and return the block that copies back.

    With reverse_compute_at of the copying block, the part that is being worked on stays in
    registers or cache. `buffer` is a name or the position among the buffers that the block writes.

    rewrite:  cache_write("C", "C", "local")
        for i in range(8):            for i in range(8):
            C[i] = f(A[i])    ->          C_local[i] = f(A[i])
                                      for ax0 in range(8):
                                          C[ax0] = C_local[ax0]

    requires:
        - the block, and no other, writes `buffer`
        - no block of the same outermost nest reads `buffer`
        - the block computes `buffer` as a whole, not from what it holds before
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
        _stores_each(node, target) or fills(state.func, target, block),
        block,
        f"block {block!r} writes a part of {target.name!r} only, and the copy would be whole",
    )
    name = state.fresh_buffer(f"{target.name}_{scope}")
    copy = Buffer(name, target.shape, target.dtype, scope)
    copier = state.fresh_block(name)
    changed = state.replace(state.block_path(block), _redirect(node, target, copy))
    changed = State(add_buffers(changed.func, copy))
    placed = place_beside(
        changed,
        top_statement(changed, block),
        copy_nest(changed, copier, copy, target),
        before=False,
    )
    return placed, BlockRef(copier)


def _stores_each(node: Block, target: Buffer) -> bool:
    """Whether a block that runs for all values of its variables stores to each element of `target`,
    which nearly all do: at a variable for each dimension that runs over all of it."""
    store = plain_store(node)
    extents = {it.var: it.extent for it in node.iters}
    return store is not None and all(
        [extents[i] is size for i, size in zip(store.indices, target.shape)]  # type: ignore[index]
    )


def _redirect(node: Block, target: Buffer, copy: Buffer) -> Block:
    """The block with all its uses of `target` moved to `copy`."""
    body = replace_buffers(node.body, {target: copy})
    init = None if node.init is None else replace_buffers(node.init, {target: copy})
    return replace(node, body=body, init=init)
