"""compute_at: compute a producer where it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.analysis.dependence import meets_within
from schedule.analysis.uses import is_output, plain_stores, producers, readers
from schedule.checks.externs import plain_parts
from schedule.checks.ownership import require_sole_writer
from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.placement import (
    accesses_of,
    child_of,
    fresh_loops,
    insert,
    move_checks,
    names_in,
    own_predicate,
    touched_region,
)
from schedule.state import State, nest
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Expr,
    For,
    Interval,
    IterKind,
    Var,
    binary,
    const,
)


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
        - the block stores to distinct block variables of intermediate buffers, the same of each, or
          has an extern function write the rows at them
        - no other block writes these buffers
        - every reader of the buffers is inside `loop`
        - what the block reads is complete before its place in `loop`, and a step of a scan stays in
          its time
        - no reduction whose init reads the buffer runs over `loop` or a loop outside
        - what the block's predicate excludes can be said in the block's own variables
        - the block is outside `loop`, its own loops are serial and carry no annotation
        - `loop` is not vectorized or inside a vectorized loop
    """
    node, target = state.block(block), state.loop(loop)
    buffers, indices = _written(state, node)
    move_checks(state, block, loop)
    users = _readers_inside(state, buffers, block, target)
    position = min(i for i, s in enumerate(child_of(target)) if names_in(s) & users)
    late = {*_between(state, block, target), *names_in(target)}
    for name in producers(state, block):
        require(
            name not in late or not meets_within(state, block, name, target),
            block,
            f"block {name!r}, which {block!r} reads, runs later inside loop {loop!r}"
            if name in names_in(target)
            else f"block {name!r}, which {block!r} reads, runs before loop {loop!r}, and after it",
        )
    reads = [a for b in buffers for a in accesses_of(state, users, b, writes=False)]
    region = touched_region(state, target, reads, loop)
    ranges = {v: part for v, part in zip(indices, region) if isinstance(v, Var)}
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    _same_time(node, ranges, loop, analyzer)
    conditions = own_predicate(state, node)
    removed = state.replace(state.block_path(block), None)
    loops, moved = fresh_loops(removed, node, ranges, conditions, analyzer, preserve_unit_loops)
    destination = insert(removed.loop(loop), position, nest(loops, moved))
    return removed.replace(removed.loop_path(loop), destination), None


def _written(state: State, node: Block) -> tuple[tuple[Buffer, ...], tuple[Expr, ...]]:
    """The intermediate buffers that the block alone writes, and the indices of its stores, all the
    same; of an extern function the rows of its output."""
    block = node.name
    found = plain_parts(node) or plain_stores(node)
    require(
        found is not None,
        block,
        f"block {block!r} does not store to distinct variables of its own, the same of each buffer",
    )
    assert found is not None
    for buffer in found[0]:
        name = buffer.name
        require(not is_output(state, buffer), block, f"{name!r} is an output of the function")
        require_sole_writer(state, buffer, block)
    return found


def _same_time(
    node: Block, ranges: Mapping[Var, Interval], loop: str, analyzer: Analyzer
) -> None:
    """Refuse a place where other steps of a scan would be computed than at the present one."""
    for it in node.iters:
        if it.kind is not IterKind.OPAQUE:
            continue
        part = ranges.get(it.var)
        same = part is not None and part.extent is const(1)
        require(
            same and analyzer.prove(binary("==", ranges[it.var].low, it.binding)),
            loop,
            f"loop {loop!r} is not in the time step in which block {node.name!r} runs",
        )


def _between(state: State, block: str, target: For) -> list[str]:
    """The blocks that run after `block` and before `target`."""
    order, inside = state.block_names(), names_in(target)
    return order[order.index(block) + 1 : min(map(order.index, inside))]


def _readers_inside(
    state: State, buffers: Sequence[Buffer], block: str, target: For
) -> set[str]:
    """The readers of the buffers, all of which must be below `target`."""
    inside = names_in(target)
    users = [name for buffer in buffers for name in readers(state, buffer)]
    buffer = buffers[0]
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
