"""Bodies that share a loop, or follow each other in loops of their own: what merge and fission ask.

Both ways compute the same if no two iterations of different bodies meet in an element that one of
them writes, unless it is one and the same iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import Access, accesses
from schedule.state import State, extents, loops_below
from tensorir import Analyzer, Block, For, same_slice


def meeting(
    state: State, outside: Sequence[For], whole: For, bodies: Sequence[Sequence[Block]]
) -> tuple[Access, Access] | None:
    """An access of an earlier body, and one of a later body to an element of the same buffer that
    may be touched in another iteration of `whole`, one of them writing; None if there are none.

    `whole` has all of the bodies, in order, inside; `outside` are the loops around it.
    """
    below = loops_below(whole)
    analyzer, inner = state.analyzer([*outside, *below]), extents(below)
    touched = [[a for block in body for a in accesses(block)] for body in bodies]
    for number, later in enumerate(touched):
        for a in (a for body in touched[:number] for a in body):
            for b in later:
                if a.buffer is not b.buffer or not (a.is_write or b.is_write):
                    continue
                if not apart(a, b, analyzer) and not same_slice(a, b, whole, inner, analyzer):
                    return a, b
    return None


def apart(a: Access, b: Access, analyzer: Analyzer) -> bool:
    """Whether the ranges of some index of the two have nothing in common. Those that are empty say
    nothing: accesses that never happen keep their order as others do."""
    for left, right in zip(a.in_loops(), b.in_loops()):
        mine, theirs = analyzer.bounds(left), analyzer.bounds(right)
        ranges = (mine, theirs)
        if any(low is not None and high is not None and low > high for low, high in ranges):
            continue
        for below, above in ((mine[1], theirs[0]), (theirs[1], mine[0])):
            if below is not None and above is not None and below < above:
                return True
    return False
