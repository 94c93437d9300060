"""Reductions of the form of an einsum: C[i, j] = fold(C[i, j], A[i, k] * B[k, j])."""

from __future__ import annotations

from dataclasses import dataclass

from schedule.analysis.uses import plain_store
from schedule.errors import Illegal, require
from tensorir import (
    BinOp,
    Block,
    Cast,
    Const,
    Expr,
    Load,
    Store,
    Var,
)


@dataclass(frozen=True)
class Einsum:
    """A reduction by `op` of a product of loads, or of one load."""

    block: Block
    store: Store
    op: str
    loads: tuple[Load, ...]


def einsum_of(node: Block) -> Einsum:
    """The parts of a block that is an einsum; refuses any other, saying what is in the way."""
    where = node.name
    store = plain_store(node)
    spatial = {it.var for it in node.spatial}
    init = node.init.value if isinstance(node.init, Store) else None
    require(
        store is not None and isinstance(init, Const) and spatial == set(store.indices),
        where,
        f"block {where!r} is no reduction from a constant into its own variables",
    )
    assert store is not None
    value = store.value
    parts = (value.a, value.b) if isinstance(value, BinOp) else ()
    own = Load(store.buffer, store.indices)
    terms = [part for part in parts if part is not own]
    op = value.op if isinstance(value, BinOp) else ""
    folds = op in ("+", "*", "min", "max", "and", "or") and len(terms) == 1
    require(
        folds,
        where,
        f"block {where!r} computes {value!r}, which is no reduction by one of + * min max and or",
    )
    factors = _factors(terms[0], op)
    require(
        factors is not None and len(factors) > 0,
        where,
        f"block {where!r} reduces {terms[0]!r} by {op}: no padding of what it reads is known to "
        "leave that unchanged",
        "products of reads can be summed or multiplied, and reads alone by any reduction",
    )
    assert factors is not None
    for load in factors:
        require(
            load.buffer is not store.buffer,
            where,
            f"block {where!r} uses {load.buffer.name!r} in other ways than to update it",
        )
    return Einsum(node, store, op, tuple(dict.fromkeys(factors)))


def is_einsum(node: Block) -> bool:
    """Whether a block is one."""
    try:
        return einsum_of(node) is not None
    except Illegal:
        return False


def _factors(term: Expr, op: str) -> list[Load] | None:
    """The loads whose product a term is; None if it is something else."""
    if isinstance(term, Load):
        return [term]
    if op not in ("+", "*"):
        return None
    if isinstance(term, Cast) and isinstance(term.a, Load):
        return [term.a]
    if isinstance(term, Const):
        # Zero times a number is zero, but a factor in a product counts.
        finite = isinstance(term.value, (int, float)) and term.value - term.value == 0
        return [] if op == "+" and finite else None
    if isinstance(term, BinOp) and term.op == "*":
        left, right = _factors(term.a, op), _factors(term.b, op)
        return None if left is None or right is None else left + right
    return None


def unused(load: Load, wanted: list[Var]) -> Var | None:
    """The first of the variables that the load does not use."""
    return next((var for var in wanted if var not in load.indices), None)
