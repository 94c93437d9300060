"""reverse_compute_at: run a consumer where its input has just been computed."""

from __future__ import annotations

from schedule.analysis import (
    Access,
    accesses,
    blocks_below,
    producers,
    read_by_others,
    reduction_loops,
    written,
)
from schedule.errors import require
from schedule.guarded import always_reads, instances_are_elements
from schedule.limits import limits_of_all
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
from schedule.state import State, extents, loops_below, nest
from tensorir import (
    Block,
    Buffer,
    Digit,
    For,
    Var,
    decompose,
    determines,
    int_value,
)


@primitive
def reverse_compute_at(
    state: State, block: str, loop: str, preserve_unit_loops: bool = False
) -> tuple[State, None]:
    """Move a consumer into `loop`: each iteration consumes what was computed in it.

    Loops of one iteration are left out unless `preserve_unit_loops`: then the block has one for
    each of its variables.

    rewrite:  reverse_compute_at("C", "i")
        for i, j in grid(4, 8):               for i in range(4):
            B[i, j] = ...               ->        for j in range(8):
        for i_C, j_C in grid(4, 8):                   B[i, j] = ...
            C[i_C, j_C] = f(B[i_C, j_C])          for j_C in range(8):
                                                      C[i, j_C] = f(B[i, j_C])

    requires:
        - the block is no reduction and reads exactly one buffer that is written inside `loop`
        - it reads that buffer at block variables, each used once
        - where it reads only under a condition, it runs over no more than that buffer, all of which
          is written
        - that buffer is complete: no loop of its reduction is at or outside `loop`
        - iterations of `loop` write separate dense parts of that buffer
        - where its tiles overlap, the elements of each can be told by their indices
        - if several blocks inside `loop` write it, one of them writes all that the others do
        - what else the block reads is complete before its place in `loop`
        - nothing after the block's place in `loop` writes what it reads or reads what it writes
        - what the block's predicate excludes can be said in the block's own variables
        - the block is outside `loop`, its own loops are serial and carry no annotation
        - `loop` is not vectorized or inside a vectorized loop
    """
    node, target = state.block(block), state.loop(loop)
    require(not node.is_reduction, block, f"block {block!r} is a reduction")
    move_checks(state, block, loop)
    buffer = _input(state, node, target)
    read = _plain_read(node, buffer)
    makers = {b.name for b in blocks_below(target) if buffer in written(b)}
    _complete(state, makers, target, buffer)
    if not always_reads(node.body, buffer):
        instances_are_elements(state, node, read, makers)
    writes = accesses_of(state, makers, buffer, writes=True)
    region = touched_region(state, target, writes, loop)
    _separate(state, writes, target)
    position = 1 + max(i for i, s in enumerate(child_of(target)) if names_in(s) & makers)
    _order(state, node, target, position)
    ranges = {v: part for v, part in zip(read.indices, region) if isinstance(v, Var)}
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    conditions = own_predicate(state, node)
    conditions += limits_of_all(state, writes, region, target, read.indices)
    removed = state.replace(state.block_path(block), None)
    loops, moved = own_loops(removed, node, ranges, conditions, analyzer, preserve_unit_loops)
    destination = insert(removed.loop(loop), position, nest(loops, moved))
    return removed.replace(removed.loop_path(loop), destination), None


def _input(state: State, node: Block, target: For) -> Buffer:
    """The one buffer that the block reads and that is written below `target`."""
    made = {b for below in blocks_below(target) for b in written(below)}
    found = [b for b in read_by_others(node) if b in made]
    require(
        len(found) == 1,
        node.name,
        f"block {node.name!r} reads {len(found)} of the buffers written inside loop "
        f"{target.name!r}, not one",
    )
    return found[0]


def _plain_read(node: Block, buffer: Buffer) -> Access:
    """The access of `buffer`, whose indices are distinct block variables or constants."""
    reads = [a for a in accesses(node) if a.buffer is buffer and not a.is_write]
    own = {it.var for it in node.iters}
    first = reads[0]
    variables = [i for i in first.indices if i in own]
    plain = len(set(variables)) == len(variables) and all(
        i in own or (int_value(i) == 0 and int_value(size) == 1)
        for i, size in zip(first.indices, buffer.shape)
    )
    same = all(all(x is y for x, y in zip(a.indices, first.indices)) for a in reads)
    require(
        plain and same,
        node.name,
        f"block {node.name!r} reads {buffer.name!r} at other places than its own variables",
        f"transform_block_layout of {node.name!r} gives it variables for these places, if they "
        "are those of a layout",
    )
    return first


def _complete(state: State, makers: set[str], target: For, buffer: Buffer) -> None:
    every = [n for n in state.block_names() if buffer in written(state.block(n))]
    for name in every:
        require(
            name in makers,
            target.name,
            f"block {name!r} writes {buffer.name!r} outside loop {target.name!r}",
        )
    outer = [*state.loops_outside(target.name), target]
    for name in sorted(makers):
        for loop in reduction_loops(state.block(name), outer):
            require(
                False,
                loop.name,
                f"{buffer.name!r} is not complete inside loop {target.name!r}: "
                f"loop {loop.name!r} is a reduction of block {name!r}",
            )


def _separate(state: State, writes: list[Access], target: For) -> None:
    """Each iteration must write a dense box of its own, else instances would be lost or doubled."""
    outer = [*state.loops_outside(target.name), target]
    every = [*outer, *loops_below(target.body)]
    analyzer = state.analyzer(every)
    inner = extents(loops_below(target.body))
    reason = f"iterations of loop {target.name!r} do not write separate dense parts of "
    for access in writes:
        indices = access.in_loops()
        predicate = access.block.predicate
        for index in indices:
            parts = decompose(index, extents(every), analyzer)
            dense = parts is not None and _dense([d for d in parts[0] if d.var in inner])
            require(dense, target.name, reason + repr(access.buffer.name))
        for loop in outer:
            ok = (
                loop.const_extent == 1
                or determines(indices, loop.var, extents(every), analyzer)
                or determines(indices, loop.var, extents(every), analyzer.assuming(predicate))
            )
            require(ok, loop.name, reason + repr(access.buffer.name))


def _dense(digits: list[Digit]) -> bool:
    """Whether sums of the digits take every value from 0 up to their largest, each once."""
    covered = 1
    for digit in sorted(digits, key=lambda d: d.scale):
        if digit.extent is None:  # of symbolic size: it must be the outermost
            return digit.scale == covered and digit is max(digits, key=lambda d: d.scale)
        if digit.scale != covered and digit.extent > 1:
            return False
        covered *= digit.extent
    return True


def _order(state: State, node: Block, target: For, position: int) -> None:
    """Moving the block up must not pass it over anything that it depends on."""
    name, loop = node.name, target.name
    inside, later = names_in(target), child_of(target)[position:]
    order = state.block_names()
    end = max(order.index(b) for b in inside)
    for other in producers(state, name):
        late = any(other in names_in(s) for s in later)
        passed = other not in inside and end < order.index(other) < order.index(name)
        require(
            not late and not passed,
            name,
            f"block {other!r}, which {name!r} reads, runs after its place in loop {loop!r}",
        )
    require(order.index(name) > end, name, f"block {name!r} runs before loop {loop!r}")
    made = set(written(node))
    between = [b for b in order[: order.index(name)] if b != name]
    for other in between:
        touched = {a.buffer for a in accesses(state.block(other))}
        require(
            not (made & touched),
            name,
            f"block {other!r} also uses {', '.join(b.name for b in made)}, which {name!r} writes",
        )
