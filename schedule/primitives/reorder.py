"""reorder: permute nested loops."""

from __future__ import annotations

from schedule.analysis.dependence import carried_dependence, conflict_within
from schedule.analysis.uses import blocks_below
from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import not_inside
from schedule.state import State, chain_below, nest
from tensorir import For, ForKind, recurrent


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
        - of two loops that change places around blocks that use what another iteration wrote
          (te.scan), one is known to carry no dependence, by the places of all accesses
        - parallel and vectorized loops may be so where they are then
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
    refusal = _blocked(state, chain, after)
    if refusal is not None:
        raise refusal
    changed = state.replace(state.loop_path(outermost.name), nest(after, chain[-1].body))
    _still_concurrent(changed, after)
    return changed, None


def _still_concurrent(changed: State, after: list[For]) -> None:
    """Loops whose iterations run at once must be allowed to with other loops inside of them."""
    for node in after:
        if node.kind is ForKind.PARALLEL:
            not_inside(changed, node.name, ForKind.VECTORIZED)
        if node.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
            lanes = node.kind is ForKind.VECTORIZED
            refusal = carried_dependence(changed, node.name, lanes)
            if refusal is not None:
                raise refusal


def _blocked(state: State, before: list[For], after: list[For]) -> Illegal | None:
    """A reason against the new order.

    Instances that depend on each other differ in loops that carry a dependence. If these keep their
    order among themselves, what came first still does. Of a loop around several blocks whose
    iterations have memory to themselves that is known only where no other loop carries any.
    """
    below = blocks_below(before[0])
    if len(below) < 2 and not any(recurrent(block) for block in below):
        return None
    swapped = _swapped(before, after)
    if not swapped:
        return None
    outermost = next(n for n in before if any(n in pair for pair in swapped))
    loops = {node.name: node for pair in swapped for node in pair}
    reasons = {name: conflict_within(state, node, outermost) for name, node in loops.items()}
    for outer, inner in swapped:
        found = [r for r in (reasons[outer.name], reasons[inner.name]) if r is not None]
        if len(found) == 2 or (found and len(below) > 1):
            free = inner if reasons[inner.name] is None else outer
            if len(found) == 2 or conflict_within(state, free, outermost, keeps=False):
                return found[0]
    return None


def _swapped(before: list[For], after: list[For]) -> list[tuple[For, For]]:
    """The pairs of loops whose order changes."""
    places = {node.name: place for place, node in enumerate(after)}
    return [
        (a, b)
        for i, a in enumerate(before)
        for b in before[i + 1 :]
        if places[a.name] > places[b.name]
    ]
