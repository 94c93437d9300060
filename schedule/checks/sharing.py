"""What the threads of a parallel loop share: asked of every program, whichever primitive makes it.

An intermediate that is used inside of a parallel loop only belongs to each of its iterations, and
`parallel` is granted on that ground. A later step may take a use of it out of the loop, or repeat
the loop beside itself: then all threads share one memory, and must touch elements of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedule.analysis.uses import accesses, blocks_below, read, written
from schedule.checks.changed import Changed
from schedule.errors import Illegal
from schedule.state import State, extents, loops_below
from tensorir import Buffer, For, ForKind, conflict, outliving


def sharing_conflict(changed: Changed) -> Illegal | None:
    """Why threads may not share what a step makes them share; None if they may, or share no more.

    What they shared before, the step that made it so has proved.
    """
    after = changed.after
    if ForKind.PARALLEL not in after.kinds or _uses_stay(changed):
        return None
    near = {buffer for nest in (*changed.taken, *changed.made) for buffer in nest.buffers}
    known = {(loop.name, buffer.name) for loop, buffer in _shared(changed.before, near)}
    for loop, buffer in _shared(after, near):
        if (loop.name, buffer.name) in known:
            continue
        found = [a for b in blocks_below(loop) for a in accesses(b) if a.buffer is buffer]
        below = loops_below(loop)
        analyzer = after.analyzer([*after.loops_outside(loop.name), *below])
        reason = conflict(found, loop, extents(below), analyzer)
        if reason is not None:
            return Illegal(
                loop.name,
                f"afterwards {buffer.name!r} is used in other places too than the parallel loop "
                f"{loop.name!r}, whose threads would share it: {reason}",
                "take this step before the loop is made parallel",
            )
    return None


def _uses_stay(changed: Changed) -> bool:
    """Whether a step changed no nest with a parallel loop, and no block in what it does: then
    threads share what they shared before."""
    if any([ForKind.PARALLEL in nest.kinds for nest in (*changed.taken, *changed.made)]):
        return False
    both = changed.old, changed.blocks
    mine, theirs = ({(b.name, b.init, b.body) for b in blocks} for blocks in both)
    return mine == theirs


def _shared(state: State, near: Iterable[Buffer]) -> Iterator[tuple[For, Buffer]]:
    """The parallel loops of nests that use what is `near`, each with the intermediates that are
    written in it and used elsewhere: of others, what they share is as it was."""
    made_here = {*state.func.buffers}
    for nest in state.users(near):
        for loop in [each for each in nest.loops.values() if each.kind is ForKind.PARALLEL]:
            below = blocks_below(loop)
            wanted = made_here.intersection([b for block in below for b in written(block)])
            blocks = [block for user in state.users(wanted) for block in blocks_below(user.stmt)]
            users = [b for b in blocks if not wanted.isdisjoint((*read(b), *written(b)))]
            yield from [(loop, b) for b in outliving(below, users) if b in wanted]
