"""unroll: repeat the body of a loop instead of counting."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import set_kinds
from schedule.state import State
from tensorir import ForKind


@primitive
def unroll(state: State, loop: str | Sequence[str]) -> tuple[State, None]:
    """Write out the iterations of `loop` one after the other.

    A nest that would become too large is left to the C compiler with a pragma. `loop` may be a
    list of loops, all of which are written out in one step.

    rewrite:  unroll("i")
        for i in range(4):  ->  for i in unrolled(4):
            S(i)                    S(i)

    requires:
        - `loop` is serial and carries no annotation
        - the extent of `loop` is a number
    """
    names = [loop] if isinstance(loop, str) else list(loop)
    require(bool(names), "", "no loops were given")
    for name in names:
        node = state.loop(name)
        if node.const_extent is None:
            raise Illegal(
                name,
                f"the extent {node.extent!r} of loop {name!r} is not a number",
                "split it by a number and unroll the inner part",
            )
    return set_kinds(state, {name: {"kind": ForKind.UNROLLED} for name in names}), None
