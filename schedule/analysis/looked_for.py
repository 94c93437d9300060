"""Floats that are looked for by `==`, `>=` or the like, as the place of an extreme is among the
values: what has been computed in two places has to be rounded alike in both."""

from __future__ import annotations

from collections.abc import Collection

from schedule.analysis.numerics import order_matters
from schedule.state import State
from tensorir import (
    Block,
    Buffer,
    Expr,
    Load,
    float_comparisons,
    loads,
    read,
    stmt_exprs,
    walk,
    written,
)

EQUAL = ("==", "!=")


def looked_for(state: State, block: str) -> str | None:
    """The block that compares floats that `block` computes, or what is made of them, with
    floats that are computed without it; None where there is none. A sum of floats is in any case
    what the order of its terms makes it, so that nobody finds it."""
    if order_matters(state.block(block)):
        return None
    given = set(state.func.inputs)
    places = {b.name: sides for b in state.blocks() if (sides := _compared(b, given))}
    if not places:
        return None
    made = _made_of(state, block)
    for name, pairs in places.items():
        if name == block or any(_reads(a, made) != _reads(b, made) for a, b in pairs):
            return name
    return None


def _made_of(state: State, block: str) -> set[Buffer]:
    """The buffers that hold what a block computes, or what is made of it."""
    made, before = set(written(state.block(block))), 0
    while len(made) > before:
        before = len(made)
        for each in state.blocks():
            if not made.isdisjoint(read(each)):
                made.update(written(each))
    return made


def _reads(e: Expr, buffers: Collection[Buffer]) -> bool:
    return any(load.buffer in buffers for load in loads(e))


def _compared(block: Block, given: Collection[Buffer]) -> list[tuple[Expr, Expr]]:
    """What is compared in a block; with limits that are given, only by `==`."""
    found = [c for s in walk(block.body) for e in stmt_exprs(s) for c in float_comparisons(e)]
    return [(a, b) for op, a, b in found if op in EQUAL or not _has_limit(a, b, given)]


def _has_limit(a: Expr, b: Expr, given: Collection[Buffer]) -> bool:
    return any(isinstance(side, Load) and side.buffer in given for side in (a, b))
