"""Buffers that live inside one loop, and a new layout for them."""

from __future__ import annotations

from schedule.analysis.uses import readers, writers
from schedule.errors import require
from schedule.rewrite.caching import top_statement
from schedule.rewrite.placement import accesses_of, names_in, touched_region
from schedule.state import State
from tensorir import Buffer, For, binary


def home_of(state: State, buffer: Buffer, filled: bool, where: str) -> str | None:
    """The innermost loop around all uses of a buffer that is read where it is written.

    None where writers and readers are in different nests; refuses what lies between, and any such
    loop where padding is to be `filled`.
    """
    makers, users = writers(state, buffer), readers(state, buffer)
    tops = {top_statement(state, name) for name in makers}
    near = [name for name in users if top_statement(state, name) in tops]
    if not near:
        return None
    every = {*makers, *users}
    around = [f for f in state.loops_around(makers[0]) if every <= names_in(f)]
    require(
        bool(around) and not filled,
        where,
        f"block {near[0]!r} reads {buffer.name!r} in the nest where {makers[0]!r} writes it",
        "transform_layout before compute_at or reverse_compute_at",
    )
    return around[-1].name


def require_covered(state: State, buffer: Buffer, home: str, where: str) -> None:
    """Refuse unless an iteration of the loop writes a box around all that it reads.

    Lowering allocates such a box; otherwise it would have to keep the buffer between iterations.
    """
    loop: For = state.loop(home)
    below = names_in(loop)
    written = touched_region(state, loop, accesses_of(state, below, buffer, writes=True), where)
    users = set(readers(state, buffer))
    read = touched_region(state, loop, accesses_of(state, users, buffer, writes=False), where)
    analyzer = state.analyzer([*state.loops_outside(home), loop])
    for outer, inner in zip(written, read):
        low = binary("<=", outer.low, inner.low)
        high = binary("<=", inner.low + inner.extent, outer.low + outer.extent)
        require(
            analyzer.prove(low) and analyzer.prove(high),
            where,
            f"in the new shape, what an iteration of loop {home!r} reads of {buffer.name!r} is not "
            "known to lie between the first and the last place that it writes",
            "transform_layout before compute_at or reverse_compute_at",
        )
