"""split: one loop becomes a nest of consecutive loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedule.checks.factors import known_factors
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, chain_below, fresh, nest
from tensorir import Expr, ExprLike, For, Seq, Var, const, int_value


@primitive
def split(
    state: State, loop: str, factors: Sequence[int | None]
) -> tuple[State, tuple[LoopRef, ...]]:
    """Split `loop` into len(factors) nested loops, outermost first.

    At most one factor may be None: it becomes the extent divided by the others, rounded up.
    Where the factors cover more than the extent, the surplus instances are predicated away.

    rewrite:  split("i", [None, 4])
        for i in range(10):         for i_0, i_1 in grid(3, 4):
            with block("B"):   ->       with block("B"):
                vi = spatial(10, i)         vi = spatial(10, i_0 * 4 + i_1)
                ...                         where(i_0 * 4 + i_1 < 10)
                                            ...

    requires:
        - `loop` is serial and carries no annotation
        - there are at least one and at most one unknown factors, the others are positive integers
        - the factors cover the extent; one that is symbolic or 0 needs a None factor
    """
    node = state.loop(loop)
    plain_loop(node, "split it first, and annotate the parts")
    sizes = infer_factors(node, factors)
    taken, names = state.taken_names(), list[str]()
    for number in range(len(sizes)):
        names.append(fresh(taken, (f"{node.name}_{number}",)))
        taken.add(names[-1])
    parts = [For(Var(name), size, Seq(())) for name, size in zip(names, sizes)]
    value = join(parts)
    outside = state.loops_outside(loop)
    analyzer = state.analyzer([*outside, *parts, *chain_below(node)])
    exact = analyzer.prove(value < node.extent)
    body = rebind(node.body, {node.var: value}, None if exact else value < node.extent, analyzer)
    new = state.replace(state.loop_path(loop), nest(parts, body))
    return new, tuple(LoopRef(name) for name in names)


def join(parts: Sequence[For]) -> Expr:
    """The row-major index of nested loops: (a * extent(b) + b) * extent(c) + c ..."""
    value: Expr = parts[0].var
    for part in parts[1:]:
        value = value * part.extent + part.var
    return value


def infer_factors(node: For, factors: Sequence[int | None]) -> list[Expr]:
    """The extents of the new loops, with None replaced; refuses what does not cover the loop."""
    where = node.name
    known = known_factors(node, factors)
    covered = int(const(prod(known)).value)  # no index may be larger than its type holds
    if len(known) < len(factors):
        rest: ExprLike = (node.extent + (covered - 1)) // covered
        size = int_value(rest)
        inferred = rest if size is None else const(size)
        return [const(f) if f is not None else inferred for f in factors]  # type: ignore[misc]
    extent = node.const_extent
    require(
        extent is not None,
        where,
        f"the extent {node.extent!r} is not a number and no factor is None",
        "give None as one factor",
    )
    assert extent is not None
    require(
        covered >= extent,
        where,
        f"factors {known} cover {covered} of the {extent} iterations",
        "give None as one factor to have it computed",
    )
    return [const(f) for f in known]
