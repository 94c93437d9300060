"""reorder: permute nested loops."""

from __future__ import annotations

from schedule.analysis import blocks_below
from schedule.dependence import shared_conflict
from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.state import State, chain_below, nest
from tensorir import For


@primitive
def reorder(state: State, *loops: str) -> tuple[State, None]:
    """Put `loops` in the given order, outermost first, into the places they occupy now.

    Loops of the nest that are not named keep their places.

    rewrite:  reorder("j", "i")
        for i, j in grid(3, 4):     for j, i in grid(4, 3):
            S(i, j)            ->       S(i, j)

    requires:
        - no loop is named twice
        - the loops lie on one nest without other statements in between
        - no loop carries a dependence between different blocks
    """
    nodes = [state.loop(name) for name in loops]
    for name in loops:
        require(loops.count(name) == 1, name, f"loop {name!r} is named twice")
    if len(nodes) < 2:
        return state, None
    outermost = min(nodes, key=lambda n: len(state.loop_path(n.name)))
    chain = [outermost, *chain_below(outermost)]
    for node in nodes:
        require(
            node in chain,
            node.name,
            f"loop {node.name!r} is not in one nest with {outermost.name!r}: "
            "another statement stands between them",
        )
    last = max(chain.index(node) for node in nodes)
    chain = chain[: last + 1]
    order = iter(nodes)
    after = [next(order) if node in nodes else node for node in chain]
    if after == chain:
        return state, None
    refusal = _blocked(state, _moved(chain, after))
    if refusal is not None:
        raise refusal
    return state.replace(state.loop_path(outermost.name), nest(after, chain[-1].body)), None


def _moved(before: list[For], after: list[For]) -> list[For]:
    """The loops whose order relative to some other loop changes."""
    places = {node.name: place for place, node in enumerate(after)}
    return [
        a
        for i, a in enumerate(before)
        if any((i < j) != (places[a.name] < places[b.name]) for j, b in enumerate(before) if i != j)
    ]


def _blocked(state: State, moved: list[For]) -> Illegal | None:
    """A reason against moving: only nests of several blocks can pass data between iterations."""
    if len(blocks_below(moved[0])) < 2:
        return None
    for node in moved:
        refusal = shared_conflict(state, node)
        if refusal is not None:
            return refusal
    return None
