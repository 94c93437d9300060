"""unroll: repeat the body of a loop instead of counting."""

from __future__ import annotations

from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import set_kind
from schedule.state import State
from tensorir import ForKind


@primitive
def unroll(state: State, loop: str) -> tuple[State, None]:
    """Write out the iterations of `loop` one after the other.

    A nest that would become too large is left to the C compiler with a pragma.

    rewrite:  unroll("i")
        for i in range(4):  ->  for i in unrolled(4):
            S(i)                    S(i)

    requires:
        - `loop` is serial and carries no annotation
        - the extent of `loop` is a number
    """
    node = state.loop(loop)
    require(
        node.const_extent is not None,
        loop,
        f"the extent {node.extent!r} of loop {loop!r} is not a number",
        "split it by a number and unroll the inner part",
    )
    return set_kind(state, loop, ForKind.UNROLLED), None
