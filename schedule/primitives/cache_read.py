"""cache_read: read a buffer through a copy."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import read_by_others, writers
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import (
    check_scope,
    copy_nest,
    pick,
    place_beside,
    require_filled_before,
    top_statement,
)
from schedule.rewrite.copies_inside import copy_inside
from schedule.rewrite.placement import names_in
from schedule.state import BlockRef, State, add_buffers
from tensorir import Buffer, Seq, replace_buffers


@primitive
def cache_read(
    state: State,
    block: str,
    buffer: str | int,
    scope: str = "local",
    consumer_blocks: Sequence[str] | None = None,
) -> tuple[State, BlockRef]:
    """Make `block` read `buffer` through a copy in `scope`, and return the block that copies.

    The copy is of the whole buffer; compute_at then brings it to where it is used, where only the
    part needed there is copied, densely: that packs an operand. Where the buffer is computed in
    the nest of its readers already, the copy is of what they read in an iteration of the loop in
    which it is: directly before them, and in registers of threads directly inside of the loops
    over these. `buffer` is a name or the position among the buffers that the block reads.
    `consumer_blocks` are all blocks that are to read the one copy, if not only `block`.

    rewrite:  cache_read("C", "A", "local")
                                        for ax0 in range(8):
        for i in range(8):                  A_local[ax0] = A[ax0]
            C[i] = f(A[i])    ->        for i in range(8):
                                            C[i] = f(A_local[i])

    requires:
        - the block reads `buffer` and does not write it, and so do all of `consumer_blocks`
        - no block between several readers writes `buffer`
        - a block of the same outermost nest writes `buffer` only before all readers, inside of a
          loop around all of them that is no pipeline, each iteration of which reads what it wrote
        - `buffer` is computed as a whole, and all of it, before the nest of its readers, or in that
          nest
        - `scope` is one of global, shared, local
    """
    node = state.block(block)
    check_scope(scope, block)
    source = pick(read_by_others(node), buffer, block, "reads")
    users = list(dict.fromkeys([block, *(consumer_blocks or ())]))
    for user in users[1:]:
        pick(read_by_others(state.block(user)), source.name, user, "reads")
    first = _first_statement(state, source, users)
    name = state.fresh_buffer(f"{source.name}_{scope}")
    copy = Buffer(name, source.shape, source.dtype, scope)
    copier = BlockRef(state.fresh_block(name))
    changed = state
    for user in users:
        redirected = replace_buffers(changed.block(user), {source: copy})
        changed = changed.replace(changed.block_path(user), redirected)
    changed = State(add_buffers(changed.func, copy), changed)
    copying = copy_nest(changed, copier, source, copy)
    nests = [top_statement(state, user) for user in users]
    near = [w for w in writers(state, source) if top_statement(state, w) in nests]
    if near:
        return copy_inside(state, changed, copying, source, copy, users, near), copier
    require_filled_before(state, source, first)
    return place_beside(changed, top_statement(changed, first), copying, before=True), copier


def _first_statement(state: State, source: Buffer, users: Sequence[str]) -> str:
    """The reader whose outermost nest runs first; what is read must not change until the last."""
    body = state.func.body
    nests = list(body.stmts) if isinstance(body, Seq) else [body]
    places = {user: nests.index(top_statement(state, user)) for user in users}
    first, last = min(places.values()), max(places.values())
    for writer in writers(state, source):
        place = next(n for n, nest in enumerate(nests) if writer in names_in(nest))
        require(
            not first < place < last,
            users[0],
            f"block {writer!r} writes {source.name!r} between its readers",
            "give readers of the same values a copy of their own",
        )
    return next(user for user, place in places.items() if place == first)
