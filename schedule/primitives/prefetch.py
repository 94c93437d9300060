"""prefetch: ask for memory some iterations before it is read."""

from __future__ import annotations

from schedule.analysis.uses import read_by_others
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.state import State, loops_below
from tensorir import ForKind, is_made_in, prefetch_region, replace, variables


@primitive
def prefetch(
    state: State, block: str, buffer: str | int, loop: str, distance: int = 1
) -> tuple[State, None]:
    """In each iteration of `loop`, ask for what `block` reads of `buffer` `distance` iterations
    later, one request for each cache line of each row.

    It helps where the processor's own prefetching does not see the pattern: short rows far apart.
    `buffer` is given by name or by position among the buffers that the block reads. The loop is
    annotated, and cannot be split or given a kind after that.

    rewrite:  prefetch("C", "A", "i", 2)
        for i in range(8):            for i in range(8, annotations={"prefetch": [["C", "A", 2]]}):
            for j in range(16):  ->       for j in range(16):
                C[i] += A[i, j]               C[i] += A[i, j]

    requires:
        - the block reads `buffer` and does not write it; what is no argument of the function is
          made before `loop`, not in it
        - `loop` is around the block, serial, not vectorized and in no vectorized loop
        - `loop` has no annotation but prefetches of other buffers
        - `distance` is a positive integer
        - the part that an iteration reads moves with `loop`, has a constant size, and is small
    """
    node, target = state.block(block), state.loop(loop)
    source = pick(read_by_others(node), buffer, block, "reads")
    name = source.name
    around = state.loops_around(block)
    require(target in around, loop, f"loop {loop!r} is not around block {block!r}")
    require(target.kind is ForKind.SERIAL, loop, f"loop {loop!r} is {target.kind}")
    for outer in state.loops_outside(loop):
        vector = outer.kind is ForKind.VECTORIZED
        require(not vector, loop, f"loop {loop!r} is inside the vectorized loop {outer.name!r}")
    keys = ", ".join(key for key in target.annotations if key != "prefetch")
    require(not keys, loop, f"loop {loop!r} is annotated with {keys}")
    known = list(target.annotations.get("prefetch", ()))
    again = any(row[:2] == [node.name, name] for row in known)
    require(not again, loop, f"loop {loop!r} prefetches {name!r} for block {block!r} already")
    require(not is_made_in(target, source), loop, f"loop {loop!r} makes {name!r}")
    require(distance > 0, loop, f"the distance {distance!r} is not a positive integer")
    analyzer = state.analyzer([*state.loops_outside(loop), *loops_below(target)])
    region = prefetch_region(target, node, source, analyzer)
    require(
        region is not None,
        loop,
        f"the part of {name!r} that an iteration of loop {loop!r} reads has no constant size or "
        "is too large to ask for",
        "prefetch in a loop further in",
    )
    moves = any(target.var in variables(part.low) for part in region or ())
    require(moves, loop, f"each iteration of loop {loop!r} reads the same part of {name!r}")
    marked = {**target.annotations, "prefetch": [*known, [node.name, name, distance]]}
    return state.replace(state.loop_path(loop), replace(target, annotations=marked)), None
