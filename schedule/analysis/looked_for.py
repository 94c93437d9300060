"""Floats that are looked for by `==`, as the place of an extreme is among the values: what has been
computed in two places has to be rounded alike in both."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from schedule.analysis.numerics import order_matters
from schedule.state import State
from tensorir import Block, Buffer, Expr, dtype, loads, read, stmt_exprs, walk, walk_exprs, written

EXPRESSIONS = 1024
"""Of which is kept what they compare."""


def looked_for(state: State, block: str) -> str | None:
    """The block that compares, by `==`, floats that `block` computes, or what is made of them, with
    floats that are computed without it; None where there is none. A sum of floats is in any case
    what the order of its terms makes it, so that nobody finds it."""
    if order_matters(state.block(block)):
        return None
    places = {b.name: sides for b in state.blocks() if (sides := _compared(b))}
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


def _compared(block: Block) -> list[tuple[Expr, Expr]]:
    return [pair for s in walk(block.body) for e in stmt_exprs(s) for pair in _equalities(e)]


@lru_cache(maxsize=EXPRESSIONS)
def _equalities(e: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """What is compared by `==` or `!=` with another float that is no number."""
    pairs = [p.operands for p in walk_exprs(e) if getattr(p, "op", "") in ("==", "!=")]
    floats = [(a, b) for a, b in pairs if dtype.is_float(dtype.element(a.dtype))]
    return tuple(sides for sides in floats if all(s.variables or s.has_loads for s in sides))
