"""parallel: run the iterations of a loop on several threads."""

from __future__ import annotations

from schedule.analysis.dependence import carried_dependence
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import not_inside, set_kinds
from schedule.state import State
from tensorir import ForKind


@primitive
def parallel(state: State, loop: str) -> tuple[State, None]:
    """Run the iterations of `loop` on several threads (OpenMP in C).

    rewrite:  parallel("i")
        for i in range(n):  ->  for i in parallel(n):
            S(i)                    S(i)

    requires:
        - `loop` is serial and carries no annotation
        - `loop` is not inside a parallel or vectorized loop
        - no block below reduces over `loop`
        - iterations write elements of their own and use none that another one writes
    """
    node = state.loop(loop)
    not_inside(state, loop, ForKind.PARALLEL)
    not_inside(state, loop, ForKind.VECTORIZED)
    refusal = carried_dependence(state, node.name)
    if refusal is not None:
        raise refusal
    return set_kinds(state, {loop: {"kind": ForKind.PARALLEL}}), None
