"""reverse_compute_at: run a consumer where its input has just been computed.

Iterations have to write separate dense parts, so that every instance of the consumer runs exactly
once; where regions merely cover, some would be repeated or lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import (
    Access,
    accesses,
    blocks_below,
    moving,
    producers,
    read_by_others,
    reduction_loops,
    written,
)
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.guarded import always_reads, instances_are_elements
from schedule.rewrite.limits import limits_of_all
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
from schedule.state import State, extents, loops_below, nest
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Digit,
    Expr,
    For,
    Interval,
    Var,
    binary,
    const,
    decompose,
    determines,
    intersect_with,
    inverse_of,
    relax,
    substitute,
    variables,
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
        - it reads that buffer at block variables, each used once, or at the places of a layout,
          from which these can be told
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
    read = _only_place(node, buffer)
    makers = {b.name for b in blocks_below(target) if buffer in written(b)}
    _complete(state, makers, target, buffer)
    if not always_reads(node.body, buffer):
        _plain_read(node, read)
        instances_are_elements(state, node, read, makers)
    writes = accesses_of(state, makers, buffer, writes=True)
    region = touched_region(state, target, writes, loop)
    _separate(state, writes, target)
    position = 1 + max(i for i, s in enumerate(child_of(target)) if names_in(s) & makers)
    _order(state, node, target, position)
    analyzer = state.analyzer([*state.loops_outside(loop), target])
    ranges, conditions = _instances(state, node, read, region, analyzer)
    conditions += own_predicate(state, node)
    conditions += limits_of_all(state, writes, region, target, read.indices)
    removed = state.replace(state.block_path(block), None)
    loops, moved = fresh_loops(removed, node, ranges, conditions, analyzer, preserve_unit_loops)
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


def _only_place(node: Block, buffer: Buffer) -> Access:
    """The access of `buffer`, which is always at the same indices."""
    reads = [a for a in accesses(node) if a.buffer is buffer and not a.is_write]
    first = reads[0]
    same = all(all(x is y for x, y in zip(a.indices, first.indices)) for a in reads)
    require(same, node.name, _elsewhere(node, buffer))
    return first


def _elsewhere(node: Block, buffer: Buffer) -> str:
    return f"block {node.name!r} reads {buffer.name!r} at other places than its own variables"


def _plain(node: Block, read: Access) -> bool:
    """Whether the indices are distinct block variables, or 0 where there is one element."""
    own = {it.var for it in node.iters}
    found = moving(read.indices, read.buffer.shape)
    return len(set(found)) == len(found) and all(i in own for i in found)


def _plain_read(node: Block, read: Access) -> None:
    require(_plain(node, read), node.name, _elsewhere(node, read.buffer))


def _instances(
    state: State, node: Block, read: Access, region: Sequence[Interval], known: Analyzer
) -> tuple[dict[Var, Interval], list[Expr]]:
    """The ranges of the variables of the instances that read in `region`, and what else these
    have to fulfil: from the places of a layout the variables are told by its inverse.

    Refuses ranges in which there are more instances than elements in the region.
    """
    if _plain(node, read):
        return {v: part for v, part in zip(read.indices, region) if isinstance(v, Var)}, []
    inside = {v for index in read.indices for v in variables(index)}
    box = {it.var: it.extent for it in node.iters if it.var in inside}
    axes = [Var(f"axis'{n}") for n in range(len(region))]  # no names of a program
    inverse, own = None, state.analyzer()
    for var, extent in box.items():
        own.bind(var, extent)
    if inside == box.keys():
        inverse = inverse_of(list(box), read.indices, axes, box, own)
    places = {axis: part.low + axis for axis, part in zip(axes, region)}
    sizes = {axis: part.extent for axis, part in zip(axes, region)}
    within = known.copy()
    for axis, extent in sizes.items():
        within.bind(axis, extent)
    found = [relax(within.simplify(substitute(e, places)), sizes, known) for e in inverse or ()]
    parts = [part for part in found if part is not None]
    more = known.simplify(_product(parts) - _product(region))
    require(
        inverse is not None and len(parts) == len(found) and more is const(0),
        node.name,
        _elsewhere(node, read.buffer),
        f"transform_layout {read.buffer.name!r}, or transform_block_layout {node.name!r}",
    )
    ranges = {v: intersect_with(p, size, known) for (v, size), p in zip(box.items(), parts)}
    return ranges, [
        condition
        for index, part in zip(read.indices, region)
        for condition in (binary("<=", part.low, index), binary("<", index, part.low + part.extent))
    ]


def _product(parts: Sequence[Interval]) -> Expr:
    count: Expr = const(1)
    for part in parts:
        count = count * part.extent
    return count


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
