"""Reductions in vector lanes: partial results in as many lanes as asked for, then fewer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from autotune.rules.group import output_store
from autotune.rules.nest import is_contiguous, loops_by_variable
from schedule import LoopRef, Schedule, library, needed
from tensorir import (
    Block,
    IterVar,
    Load,
    Var,
    body_loads,
    combiner_of,
    int_value,
    variables,
    written,
)

FEW = 4
"""Terms that are written out."""


def reduces_by_one(block: Block) -> bool:
    """Whether a block is a reduction by one operation, of one value, that rfactor takes."""
    found = combiner_of(block) if block.is_reduction and output_store(block) else None
    return found is not None and len(found.ops) == 1


def is_reduce_loop(block: Block, loop: str) -> bool:
    """Whether a loop drives a reduction variable of the block."""
    return loop in {v.name for it in block.reduced for v in variables(it.binding)}


def run_length(run: Sequence[IterVar]) -> int | None:
    """The terms of a run; None where there is no run, or its terms are symbolic."""
    sizes = [int_value(it.extent) for it in run]
    return None if None in sizes or not run else prod(size or 0 for size in sizes)


def into_lanes(sch: Schedule, block: str, width: int, lanes: int) -> list[str]:
    """Factor a reduction over its run of terms, the loops of which are next to each other but for
    those of one term, which go along, into `width` partial results, and these as `add_lanes` does.

    Returns the new blocks in program order; `block` keeps the sum over the last few lanes.
    """
    names, around = loops_by_variable(sch, block), sch.get_loops(block)
    node = sch.state.block(block)
    run = {names[it.var.name] for it in library.contiguous_run(node)}
    terms = ((names.get(it.var.name), int_value(it.extent)) for it in node.reduced)
    single = {name for name, extent in terms if extent == 1}
    places = [n for n, loop in enumerate(around) if loop in run]
    begin, end = min(places), max(places) + 1
    while begin and around[begin - 1] in single:
        begin -= 1
    while end < len(around) and around[end] in single:
        end += 1
    _, lane = sch.split(sch.fuse(*around[begin:end]), [None, width])
    first = str(sch.rfactor(block, lane))
    *steps, _ = library.add_lanes(sch, block, width, lanes)
    return [first, *steps]


def read_in_common(sch: Schedule, statistics: Sequence[str]) -> list[tuple[str, ...]]:
    """Reductions along contiguous memory in groups, in program order: those of a group have runs of
    one length, and share what they read with the first of it, and none needs another one."""
    groups: list[list[str]] = []
    for name in statistics:
        fitting = (g for g in groups if _goes_with(sch, name, g))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [tuple(group) for group in groups]


def _goes_with(sch: Schedule, name: str, group: Sequence[str]) -> bool:
    pair = sch.state.block(name), sch.state.block(group[0])
    one, other = ({read.buffer for read in body_loads(block)} for block in pair)
    if one.isdisjoint(other) or not needed(sch.state, name).isdisjoint(group):
        return False
    return len({run_length(library.contiguous_run(block)) for block in pair}) == 1


def run_together(sch: Schedule, blocks: Sequence[str]) -> list[str]:
    """Move the statements of `blocks`, which are in one loop, to the first of them; returns them in
    the order of the program."""
    found = sorted(blocks, key=sch.state.place)
    for before, block in zip(found, found[1:]):
        order = list(map(str, sch.get_blocks()))
        after = order[order.index(before) + 1]
        if after != block:
            sch.run_before(block, after)
    return found


def lanes_inside(sch: Schedule, blocks: Sequence[str], outside: int) -> None:
    """Order the loops of partial reductions, those below the first `outside`, as one nest in which
    what they read in common is read once: lanes innermost.

    The lanes become a vector, the spatial loops around them are unrolled.
    """
    few = 0
    for block in blocks:
        own, node = sch.get_loops(block)[outside:], sch.state.block(block)
        reducing = [loop for loop in own if is_reduce_loop(node, loop)]
        sch.reorder(*reducing, *[loop for loop in own if loop not in reducing])
        few = len(reducing)
    depth = len(sch.get_loops(blocks[0])) - 1
    for level in range(outside, depth if len(blocks) > 1 else outside):
        sch.merge(*[sch.get_loops(block)[level] for block in blocks])
    for block in blocks:
        sch.vectorize(sch.get_loops(block)[-1])
    shared = sch.get_loops(blocks[0])[outside:depth]
    for loop in shared[few:]:
        sch.unroll(loop)
    unroll_short(sch, shared[:few])


def turned_rows(sch: Schedule, reads: Mapping[str, tuple[Load, Var]]) -> list[str]:
    """Copies of a buffer for stages, the variable of the rows of each last in what it reads of the
    buffer: one for all where that has a dimension for them."""
    first, *others = reads
    dims = [[n for n, i in enumerate(load.indices) if i is row] for load, row in reads.values()]
    copies, buffer = dict[str, int](), reads[first][0].buffer.name
    if dims[0] and all(each == dims[0] for each in dims):
        copies[str(sch.cache_read(first, buffer, "local", others))] = dims[0][0]
    for stage, (load, row) in reads.items() if not copies else ():
        node, copy = sch.state.block(stage), str(sch.reindex(stage, buffer, "local"))
        copies[copy] = [it.var for it in node.iters if it.var in load.variables].index(row)
    for copy, at in copies.items():
        made = written(sch.state.block(copy))[0]
        if at != made.ndim - 1:
            sch.transform_layout(copy, made.name, moved_last(made.ndim, at))
    return list(copies)


def moved_last(count: int, at: int) -> str:
    """The index map that moves one of so many places to the end."""
    names = [f"p{n}" for n in range(count)]
    return f"{', '.join(names)}: {', '.join([*(n for n in names if n != names[at]), names[at]])}"


def rows_in_lanes(
    sch: Schedule, stages: Sequence[str], task: LoopRef, unrolled: Collection[str]
) -> None:
    """Compute stages in a loop, each in vectors of neighbouring rows around which its terms go, and
    around these what else it makes; all of that is written out of `unrolled` ones."""
    for stage in reversed(stages):
        sch.compute_at(stage, task)
    for stage in stages:
        own, node = library.own_loops(sch, stage), sch.state.block(stage)
        terms = [loop for loop in own if is_reduce_loop(node, loop)]
        vector = next(x for x in own if is_contiguous(node, sch.state.loop(x)))
        others = [loop for loop in own if loop != vector and loop not in terms]
        sch.reorder(*others, *terms, vector)
        sch.vectorize(vector)
        for loop in (*others, *terms) if stage in unrolled else ():
            sch.unroll(loop)


def unroll_short(sch: Schedule, loops: Sequence[LoopRef]) -> None:
    """Write the loops of a few terms out: what they index can then be kept in registers."""
    for loop in loops:
        if (sch.state.loop(loop).const_extent or FEW + 1) <= FEW:
            sch.unroll(loop)
