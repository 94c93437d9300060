"""compute_at: compute a producer where it is needed."""

from __future__ import annotations

from schedule.analysis import is_output, plain_store, producers, readers, written
from schedule.errors import require
from schedule.placement import (
    accesses_of,
    child_of,
    insert,
    move_checks,
    names_in,
    own_loops,
    touched_region,
)
from schedule.primitive import primitive
from schedule.state import BlockRef, LoopRef, State, nest
from tensorir import Var


@primitive
def compute_at(state: State, block: BlockRef, loop: LoopRef) -> tuple[State, None]:
    """Move a producer into `loop`: each iteration computes the part of the buffer that its
    consumers read there, no more.

    Parts of neighbouring iterations may overlap; the overlap is computed again.

    rewrite:  compute_at("B", "i")
        for i_B, j_B in grid(4, 8):           for i in range(4):
            B[i_B, j_B] = ...           ->        for j_B in range(8):
        for i, j in grid(4, 8):                       B[i, j_B] = ...
            C[i, j] = f(B[i, j])                  for j in range(8):
                                                      C[i, j] = f(B[i, j])

    requires:
        - the block stores to distinct block variables of one intermediate buffer
        - no other block writes that buffer
        - every reader of the buffer is inside `loop`
        - what the block reads is complete before its place in `loop`
        - the block is outside `loop`, its own loops are serial and carry no annotation
        - `loop` is not vectorized or inside a vectorized loop
    """
    node, target = state.block(block), state.loop(loop)
    store = plain_store(node)
    require(
        store is not None,
        block,
        f"block {block!r} does not store to distinct variables of one buffer",
    )
    assert store is not None
    buffer = store.buffer
    require(not is_output(state, buffer), block, f"{buffer.name!r} is an output of the function")
    others = [name for name in _writers(state, block) if name != block]
    require(not others, block, f"{buffer.name!r} is also written by block {(others or [''])[0]!r}")
    move_checks(state, block, loop)
    users, inside = readers(state, buffer), names_in(target)
    require(len(users) > 0, block, f"no block reads {buffer.name!r}")
    outside = [name for name in users if name not in inside]
    if outside:
        covering = [f for f in state.loop_names() if set(users) <= names_in(state.loop(f))]
        require(
            False,
            loop,
            f"reader {outside[0]!r} of {buffer.name!r} is outside loop {loop!r}",
            f"loops that cover its readers: {', '.join(covering) or 'none'}",
        )
    position = min(i for i, s in enumerate(child_of(target)) if names_in(s) & set(users))
    late = set().union(*(names_in(s) for s in child_of(target)[position:]))
    for name in producers(state, block):
        require(
            name not in late,
            block,
            f"block {name!r}, which {block!r} reads, runs later inside loop {loop!r}",
        )
    reads = accesses_of(state, set(users), buffer, writes=False)
    region = touched_region(state, target, reads, loop)
    ranges = {v: part for v, part in zip(store.indices, region) if isinstance(v, Var)}
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    removed = state.replace(state.block_path(block), None)
    loops, moved = own_loops(removed, node, ranges, analyzer)
    destination = insert(removed.loop(loop), position, nest(loops, moved))
    return removed.replace(removed.loop_path(loop), destination), None


def _writers(state: State, block: str) -> list[str]:
    made = set(written(state.block(block)))
    return [n for n in state.block_names() if made & set(written(state.block(n)))]
