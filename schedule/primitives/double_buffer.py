"""double_buffer: give a buffer two versions, used by turns."""

from __future__ import annotations

from schedule.analysis.coverage import covered
from schedule.analysis.uses import is_output, readers, written
from schedule.checks.buffer_hints import add_hint
from schedule.checks.ownership import innermost_shared_loop, require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.rewrite.placement import child_of, names_in
from schedule.state import State
from tensorir import ForKind


@primitive
def double_buffer(state: State, block: str, buffer: str | int = 0) -> tuple[State, None]:
    """Let the iterations of the loop in which `block` fills `buffer` use two versions of it in
    turn, so that the next one can be filled while this one is still being read.

    The loop is the innermost one that `block` shares with the readers. Where copies should run
    ahead of their use, pipeline the loop instead: it makes the versions that it needs by itself.

    rewrite:  double_buffer("T", "T")
        for k in range(8):                attrs({"double_buffer": ["T"]})    in memory, as
            T[...] = A[k, ...]      ->    for k in range(8):                 T[k % 2, ...]
            C[...] += f(T[...])               T[...] = A[k, ...]
                                              C[...] += f(T[...])

    requires:
        - the block, and no other, writes `buffer`, an intermediate that is not doubled already
        - a loop around the block has other blocks inside; the innermost one of these is serial
          and no pipeline
        - every reader of the buffer follows the block inside that loop
        - in each iteration the block fills all that is read in it
    """
    node = state.block(block)
    target = pick(written(node), buffer, block, "writes")
    name = target.name
    require(not is_output(state, target), block, f"{name!r} is an output of the function")
    require_sole_writer(state, target, block)
    loop = innermost_shared_loop(state, block)
    require(loop.kind is ForKind.SERIAL, loop.name, f"loop {loop.name!r} is {loop.kind}")
    piped = "pipeline" in loop.annotations
    require(not piped, loop.name, f"loop {loop.name!r} is a pipeline, which has versions already")
    children = child_of(loop)
    place = next(i for i, s in enumerate(children) if block in names_in(s))
    later = {other for s in children[place + 1 :] for other in names_in(s)}
    users = readers(state, target)
    for reader in users:
        require(
            reader in later,
            loop.name,
            f"block {reader!r} reads {name!r}, and does not follow {block!r} inside loop "
            f"{loop.name!r}",
        )
    user = users[0] if users else ""
    require(
        covered(state, target, loop),
        loop.name,
        f"block {user!r} reads parts of {name!r} that block {block!r} may not fill in the same "
        f"iteration of loop {loop.name!r}",
    )
    return add_hint(state, "double_buffer", name, block), None
