"""fission: one loop around several statements becomes loops after each other."""

from __future__ import annotations

from schedule.analysis.bodies import meeting
from schedule.analysis.uses import blocks_below
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.placement import child_of, names_in
from schedule.rewrite.rebind import plain_loop
from schedule.state import LoopRef, State, fresh
from tensorir import For, ForKind, Stmt, Var, replace, seq, substitute_stmt


@primitive
def fission(state: State, loop: str, after: str | None = None) -> tuple[State, tuple[LoopRef, ...]]:
    """Give each statement inside of `loop` a loop of its own; return these, in order.

    With `after`, a block, there are two loops: the first one has all up to that block, the second
    one what follows. The block may lie in loops inside of `loop`, threads too, which are then
    divided as well. A buffer between the two then holds what all iterations put into it. merge is
    the way back.

    rewrite:  fission("i")
        for i in range(8):            for i_0 in range(8):
            B[i] = A[i] + 1.0   ->        B[i_0] = A[i_0] + 1.0
            C[i] = B[i] * 2.0         for i_1 in range(8):
                                          C[i_1] = B[i_1] * 2.0

    requires:
        - `loop` is serial and carries no annotation
        - there are several statements inside of it
        - `after` is inside of one of them, and that is not the last
        - loops that are divided with it are serial or over threads, and carry no annotation
        - what two of the bodies share, one of them writing, they touch in the same iterations, or
          in ranges that have nothing in common
    """
    plain_loop(state.loop(loop), "fission it first, and annotate the parts")
    if after is not None:
        state.block(after)
        for name in reversed(_inner(state, loop, after)):
            if _followed(state.loop(name), after):
                state = _divided(state, name, after)[0]
    return _divided(state, loop, after)


def _inner(state: State, loop: str, after: str) -> list[str]:
    """The loops inside of `loop` around the block."""
    names = [f.name for f in state.loops_around(after)]
    return names[names.index(loop) + 1 :] if loop in names else []


def _followed(loop: For, after: str) -> bool:
    """Whether something stands behind the statement of the block in the loop."""
    if after not in names_in(child_of(loop)[-1]):
        kinds = (ForKind.SERIAL, ForKind.THREAD)
        require(
            loop.kind in kinds and not loop.annotations,
            loop.name,
            f"loop {loop.name!r} is {loop.kind.value}"
            if loop.kind not in kinds
            else f"loop {loop.name!r} is annotated with {', '.join(loop.annotations)}",
            "fission before that",
        )
        return True
    return False


def _divided(state: State, loop: str, after: str | None) -> tuple[State, tuple[LoopRef, ...]]:
    node = state.loop(loop)
    bodies = _bodies(state, node, after)
    found = meeting(
        state,
        state.loops_outside(loop),
        node,
        [blocks_below(body) for body in bodies],
    )
    if found is not None:
        a, b = found
        require(
            False,
            loop,
            f"block {b.block.name!r} may touch elements of {a.buffer.name!r} in an iteration of "
            f"loop {loop!r} that block {a.block.name!r} touches in a later one",
        )
    taken, parts = state.taken_names(), list[For]()
    for number, body in enumerate(bodies):
        var = Var(fresh(taken, (f"{node.name}_{number}",)), node.var.dtype)
        taken.add(var.name)
        parts.append(replace(node, var=var, body=substitute_stmt(body, {node.var: var})))
    changed = state.replace(state.loop_path(loop), seq(*parts))
    return changed, tuple([LoopRef(part.name) for part in parts])


def _bodies(state: State, node: For, after: str | None) -> list[Stmt]:
    """What each of the new loops has inside."""
    children = child_of(node)
    require(
        len(children) > 1,
        node.name,
        f"there is one statement only inside of loop {node.name!r}",
        "fission the loop that is directly around several",
    )
    if after is None:
        return list(children)
    place = next((n for n, child in enumerate(children, 1) if after in names_in(child)), None)
    require(place is not None, after, f"block {after!r} is not inside of loop {node.name!r}")
    require(
        place != len(children),
        after,
        f"nothing follows the statement of block {after!r} inside of loop {node.name!r}",
    )
    return [seq(*children[:place]), seq(*children[place:])]
