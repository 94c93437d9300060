"""compute_at: compute a producer where it is needed."""

from __future__ import annotations

from schedule.analysis import is_output, plain_store, producers, readers
from schedule.errors import Illegal, require
from schedule.externs import plain_part
from schedule.ownership import require_sole_writer
from schedule.placement import (
    accesses_of,
    child_of,
    insert,
    move_checks,
    names_in,
    own_loops,
    own_predicate,
    touched_region,
)
from schedule.primitive import primitive
from schedule.state import State, nest
from tensorir import Block, Buffer, Expr, For, Var


@primitive
def compute_at(
    state: State, block: str, loop: str, preserve_unit_loops: bool = False
) -> tuple[State, None]:
    """Move a producer into `loop`: each iteration computes the part of the buffer that its
    consumers read there, no more.

    Parts of neighbouring iterations may overlap; the overlap is computed again. Loops of one
    iteration are left out unless `preserve_unit_loops`: then the block has one for each variable.

    rewrite:  compute_at("B", "i")
        for i_B, j_B in grid(4, 8):           for i in range(4):
            B[i_B, j_B] = ...           ->        for j_B in range(8):
        for i, j in grid(4, 8):                       B[i, j_B] = ...
            C[i, j] = f(B[i, j])                  for j in range(8):
                                                      C[i, j] = f(B[i, j])

    requires:
        - the block stores to distinct block variables of one intermediate buffer, or has an extern
          function write the rows at them
        - no other block writes that buffer
        - every reader of the buffer is inside `loop`
        - what the block reads is complete before its place in `loop`
        - no reduction whose init reads the buffer runs over `loop` or a loop outside
        - what the block's predicate excludes can be said in the block's own variables
        - the block is outside `loop`, its own loops are serial and carry no annotation
        - `loop` is not vectorized or inside a vectorized loop
    """
    node, target = state.block(block), state.loop(loop)
    buffer, indices = _written(state, node)
    move_checks(state, block, loop)
    users = _readers_inside(state, buffer, block, target)
    position = min(i for i, s in enumerate(child_of(target)) if names_in(s) & users)
    late = set().union(*(names_in(s) for s in child_of(target)[position:]))
    for name in producers(state, block):
        require(
            name not in late,
            block,
            f"block {name!r}, which {block!r} reads, runs later inside loop {loop!r}",
        )
    reads = accesses_of(state, users, buffer, writes=False)
    region = touched_region(state, target, reads, loop)
    ranges = {v: part for v, part in zip(indices, region) if isinstance(v, Var)}
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    conditions = own_predicate(state, node)
    removed = state.replace(state.block_path(block), None)
    loops, moved = own_loops(
        removed, node, ranges, conditions, analyzer, preserve_unit_loops
    )
    destination = insert(removed.loop(loop), position, nest(loops, moved))
    return removed.replace(removed.loop_path(loop), destination), None


def _written(state: State, node: Block) -> tuple[Buffer, tuple[Expr, ...]]:
    """The intermediate buffer that the block alone writes, and the indices of its store; of an
    extern function the rows of its output."""
    block, store = node.name, plain_store(node)
    found = plain_part(node) if store is None else (store.buffer, store.indices)
    require(
        found is not None,
        block,
        f"block {block!r} does not store to distinct variables of one buffer",
    )
    assert found is not None
    buffer = found[0]
    require(not is_output(state, buffer), block, f"{buffer.name!r} is an output of the function")
    require_sole_writer(state, buffer, block)
    return found


def _readers_inside(state: State, buffer: Buffer, block: str, target: For) -> set[str]:
    """The readers of the buffer, all of which must be below `target`."""
    users, inside = readers(state, buffer), names_in(target)
    require(len(users) > 0, block, f"no block reads {buffer.name!r}")
    outside = [name for name in users if name not in inside]
    if outside:
        require(
            False,
            target.name,
            f"reader {outside[0]!r} of {buffer.name!r} is outside loop {target.name!r}",
            lambda: _where_it_could_go(state, block, users),
        )
    return set(users)


def _where_it_could_go(state: State, block: str, users: list[str]) -> str:
    """The loops around all readers, and which of them the block may really be moved to."""
    covering = [f for f in state.loop_names() if set(users) <= names_in(state.loop(f))]
    legal = [loop for loop in covering if _accepted(state, block, loop)]
    text = f"loops that cover its readers: {', '.join(covering) or 'none'}"
    return text if legal == covering else f"{text}; legal: {', '.join(legal) or 'none'}"


def _accepted(state: State, block: str, loop: str) -> bool:
    try:
        compute_at(state, block, loop)
    except Illegal:
        return False
    return True
