"""vectorize: run the iterations of a loop as lanes of vector instructions."""

from __future__ import annotations

from schedule.analysis.dependence import carried_dependence
from schedule.errors import Illegal
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import not_inside, set_kinds
from schedule.state import State, loops_below
from tensorir import ForKind


@primitive
def vectorize(state: State, loop: str) -> tuple[State, None]:
    """Run the iterations of `loop` as vector lanes.

    Lowering cuts the loop into vectors of the target's width; what does not fill one becomes
    narrower vectors and, last, scalar code.

    rewrite:  vectorize("j")
        for j in range(32):  ->  for j in vectorized(32):
            S(j)                     S(j)

    requires:
        - `loop` is serial and carries no annotation
        - the extent of `loop` is a number
        - `loop` is not inside a vectorized loop, and has no parallel or vectorized loop inside
        - no block below reduces over `loop`
        - iterations write elements of their own and use none that another one writes; lanes share
          buffers that are used inside `loop` only
    """
    node = state.loop(loop)
    if node.const_extent is None:
        raise Illegal(
            loop,
            f"the extent {node.extent!r} of loop {loop!r} is not a number",
            "split it by a number and vectorize the inner part",
        )
    not_inside(state, loop, ForKind.VECTORIZED)
    for inner in loops_below(node.body):
        if inner.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
            raise Illegal(loop, f"loop {loop!r} has the {inner.kind} loop {inner.name!r} inside")
    refusal = carried_dependence(state, node.name, lanes=True)
    if refusal is not None:
        raise refusal
    return set_kinds(state, {loop: {"kind": ForKind.VECTORIZED}}), None
