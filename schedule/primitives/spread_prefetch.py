"""spread_prefetch: ask for the memory of a later iteration, spread over a loop that computes."""

from __future__ import annotations

from schedule.analysis.uses import is_output, read, written
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.state import State, loops_below
from tensorir import Buffer, For, ForKind, part_of, replace, requests, variables

KEY = "spread_prefetch"


@primitive
def spread_prefetch(
    state: State, block: str, buffer: str | int, loop: str, over: str, distance: int = 1
) -> tuple[State, None]:
    """In the iterations of `over`, a loop inside of `loop`, ask for what `block` reads or writes of
    `buffer` in the iteration of `loop` that is `distance` later; 0 is the one at hand.

    Each iteration asks for a few cache lines, so that memory works while the processor computes.
    Rows that lie apart are asked for one after the other. Of a dimension whose places memory tells,
    all are asked for. `loop` may be parallel. `buffer` is an
    argument of the function, given by name or by position among the buffers that the block reads
    and then writes. The loop `over` is annotated, and cannot be split or given a kind after that.

    rewrite:  spread_prefetch("C", "A", "i", "j", 1)
        for i in range(8):            for i in range(8):
            for j in range(16):           for j in range(16, annotations={
                B[j] = ...        ->              "spread_prefetch": [["C", "A", "i", 1]]}):
            for k in range(64):               B[j] = ...
                C[i, k] = A[i, k] ...     for k in range(64):
                                              C[i, k] = A[i, k] ...

    requires:
        - the block reads or writes `buffer`, an argument of the function
        - `loop` is around the block, and not vectorized
        - `over` is inside of `loop`, serial, and in no vectorized loop
        - `over` has no annotation but requests, of this kind for other buffers
        - `distance` is an integer, at least 0
        - the part that an iteration of `loop` touches moves with it, and has a constant size
        - the loops from `loop` to `over` have constant extents, and an iteration asks for few lines
    """
    node, target, inner = state.block(block), state.loop(loop), state.loop(over)
    source = pick(tuple(dict.fromkeys((*read(node), *written(node)))), buffer, block, "uses")
    require(is_output(state, source), block, f"{source.name!r} is no argument of the function")
    around = target in state.loops_around(block)
    require(around, loop, f"loop {loop!r} is not around block {block!r}")
    vector = target.kind is ForKind.VECTORIZED
    require(not vector, loop, f"loop {loop!r} is vectorized")
    path = [*state.loops_outside(over), inner]
    require(target in path[:-1], over, f"loop {over!r} is not inside of loop {loop!r}")
    known = _known(path, node.name, source.name)
    require(distance >= 0, over, f"the distance {distance!r} is no integer from 0 on")
    _require_few(state, node.name, source, path[path.index(target) :])
    asked = [node.name, source.name, target.name, distance]
    marked = {**inner.annotations, KEY: [*known, asked]}
    return state.replace(state.loop_path(over), replace(inner, annotations=marked)), None


def _known(path: list[For], block: str, name: str) -> list[list[str | int]]:
    """The requests that the last loop of `path` has already; refused where it takes no more."""
    *outside, inner = path
    over = inner.name
    require(inner.kind is ForKind.SERIAL, over, f"loop {over!r} is {inner.kind}")
    for outer in outside:
        vector = outer.kind is ForKind.VECTORIZED
        require(not vector, over, f"loop {over!r} is inside the vectorized loop {outer.name!r}")
    keys = ", ".join(key for key in inner.annotations if key not in (KEY, "prefetch"))
    require(not keys, over, f"loop {over!r} is annotated with {keys}")
    known: list[list[str | int]] = list(inner.annotations.get(KEY, ()))
    again = any(row[:2] == [block, name] for row in known)
    require(not again, over, f"loop {over!r} asks for {name!r} of block {block!r} already")
    return known


def _require_few(state: State, block: str, source: Buffer, path: list[For]) -> None:
    """Refuse parts of unknown size, or too large for the loops of `path` inside the first."""
    target, over, name = path[0], path[-1].name, source.name
    analyzer = state.analyzer([*state.loops_outside(target.name), *loops_below(target)])
    part = part_of(target, block, source, analyzer)
    require(
        part is not None,
        target.name,
        f"what block {block!r} touches of {name!r} in an iteration of loop {target.name!r} has no "
        "constant size",
    )
    assert part is not None
    moves = any(target.var in variables(index) for index in part.first)
    same = f"each iteration of loop {target.name!r} touches the same part of {name!r}"
    require(moves, target.name, same)
    require(
        requests(part, source, tuple(path[1:])) is not None,
        over,
        f"an iteration of loop {over!r} would ask for too many cache lines of {name!r}, or for an "
        "unknown number",
        "take a loop of more iterations, or one further in",
    )
