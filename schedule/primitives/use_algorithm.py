"""use_algorithm: compute the same by another algorithm."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import readers, writers, written
from schedule.checks.ownership import require_sole_writer
from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.caching import require_whole, require_whole_before, top_statement
from schedule.rewrite.placement import names_in
from schedule.rewrite.rebind import plain_loop
from schedule.state import BlockRef, State
from tensorir import (
    TRUE,
    Mismatch,
    apply_algorithm,
    find_algorithm,
    known_algorithms,
    with_unique_names,
)


@primitive
def use_algorithm(state: State, block: str, algorithm: str) -> tuple[State, BlockRef]:
    """Put the stages of another algorithm in the place of `block`, which they compute.

    In exact arithmetic the values are the same. `Schedule.numerics` tells how they round, and an
    infinite or NaN input may reach more outputs. Returns the block that makes the result now. A
    block that made what only `block` read, such as padding, goes with it, and one that made the
    first row of a scan. tensorir.register_algorithm adds algorithms of your own.

    rewrite:  use_algorithm("y", "winograd_2x2")
        y[n, o, h, w] = y[n, o, h, w]         y_input[...] = ... x[...]
            + x[n, c, h + r, w + s]      ->   y_weights[...] = ... weight[...]
            * weight[o, c, r, s]              y_products[...] += y_input[...] * y_weights[...]
                                              y[...] = ... y_products[...]

    requires:
        - there is an algorithm of that name
        - it is one for what `block` computes, of these sizes and types
        - `block` computes its buffer as a whole, and no other block writes it but one that goes
          with it
        - it is alone in its nest, whose loops are serial and carry no annotation, as are those of a
          block that goes with it
        - no block writes what one that goes with it has read before
        - what the algorithm reads is computed as a whole before it: it may read more of that
    """
    known = find_algorithm(algorithm)
    names = ", ".join(known_algorithms())
    require(known is not None, block, f"algorithm {algorithm!r} is not known; known are {names}")
    assert known is not None
    node = state.block(block)
    try:
        made = apply_algorithm(state.func, node, known)
    except Mismatch as mismatch:
        raise Illegal(block, f"algorithm {algorithm!r} is not for it: {mismatch}") from None
    alternative = made.alternative
    gone = (*alternative.replaced, block)
    for name in gone:
        _plain(state, name, gone)
    place = {name: n for n, name in enumerate(state.block_names())}
    for buffer in alternative.inputs:
        reads = [place[name] for name in readers(state, buffer) if name in gone]
        for writer in writers(state, buffer):
            late = min(reads, default=place[block]) < place[writer] < place[block]
            require(not late, writer, f"block {writer!r} writes {buffer.name!r} in between")
        require_whole_before(state, buffer, block)
    return State(with_unique_names(made.func)), BlockRef(made.block)


def _plain(state: State, name: str, gone: Sequence[str]) -> None:
    """Refuse a block that shares its nest, computes less than its buffer, with the others that are
    `gone`, or was scheduled."""
    node = state.block(name)
    alone = names_in(top_statement(state, name)) == {name}
    require(alone, name, f"block {name!r} is not alone in its nest")
    for buffer in written(node):
        require_whole(state, buffer, name)
        if not set(writers(state, buffer)) <= set(gone):
            require_sole_writer(state, buffer, name)
    whole = node.predicate is TRUE
    require(whole, name, f"block {name!r} has a condition", "use_algorithm before splitting loops")
    for loop in state.loops_around(name):
        plain_loop(loop, "use_algorithm before annotating loops")
