"""Carrying the predicate of a producer over to the consumer of what it makes.

Inside one iteration of a loop, a producer may leave out elements: its tiles can overlap in the
index space, and a predicate keeps each element to one of them. A consumer that follows must leave
out the same elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import Access
from schedule.errors import require
from schedule.rewrite.placement import conditions_of_writes, touched_region
from schedule.state import State, loops_below
from tensorir import (
    BinOp,
    Const,
    Expr,
    For,
    Interval,
    Var,
    binary,
    const,
    slope,
    variables,
)


def limits_of(state: State, write: Access, target: For, indices: Sequence[Expr]) -> list[Expr]:
    """Conditions on `indices`, where a consumer reads, and on `target` and the loops outside,
    under which the element was written in this iteration of `target`.

    A condition that involves loops inside `target` is rewritten by the identity of the element,
    `write.indices == indices`; refuses one that cannot.
    """
    inner = [loop.var for loop in loops_below(target.body)]
    places = list(zip(write.in_loops(), indices))
    found = []
    for part in conditions_of_writes(state, write.block):
        outside = variables(part).isdisjoint(inner)
        limit = part if outside else _eliminate(state, part, inner, places)
        require(
            limit is not None,
            target.name,
            f"block {write.block.name!r} runs where {part!r}, "
            f"which cannot be said outside of its loops inside {target.name!r}",
        )
        assert limit is not None
        found.append(limit)
    return found


def limits_of_all(
    state: State,
    writes: Sequence[Access],
    region: Sequence[Interval],
    target: For,
    indices: Sequence[Expr],
) -> list[Expr]:
    """Conditions under which an element of `region` was written by one of `writes`.

    Refuses writes of which none writes all that the others do.
    """
    whole = [w for w in writes if _covers(touched_region(state, target, [w], ""), region)]
    if any([not conditions_of_writes(state, w.block) for w in whole]):
        return []
    limits = [limits_of(state, write, target, indices) for write in writes]
    alike = all([len(x) == len(limits[0]) and not set(x) ^ set(limits[0]) for x in limits])
    first, last = writes[0], writes[-1]
    require(
        len(writes) == 1 or (alike and len(whole) == len(writes)),
        target.name,
        f"blocks {first.block.name!r} and {last.block.name!r} write different parts of "
        f"{first.buffer.name!r} in loop {target.name!r}",
    )
    return limits[0]


def _covers(part: Sequence[Interval], region: Sequence[Interval]) -> bool:
    pairs = zip(part, region)
    return all([p.low is r.low and p.extent is r.extent for p, r in pairs])


def _eliminate(
    state: State, part: Expr, inner: Sequence[Var], places: Sequence[tuple[Expr, Expr]]
) -> Expr | None:
    """The comparison `part` without the inner loops; None where no index stands in for them."""
    if not isinstance(part, BinOp) or part.op not in ("<", "<="):
        return None
    value = part.a - part.b
    analyzer = state.analyzer()
    for written, read in places:
        for var in [var for var in inner if var in variables(written)]:
            step, wanted = slope(written, var, analyzer), slope(value, var, analyzer)
            if not step or wanted is None or wanted % step or isinstance(read, Const):
                continue
            factor = wanted // step
            other = analyzer.simplify(value + (read - written) * factor)
            if variables(other).isdisjoint(inner):
                return binary(part.op, other, const(0))
    return None
