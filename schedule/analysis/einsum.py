"""Reductions of reads that may be padded: C[i, j] = fold(C[i, j], A[i, k] * B[k, j]) and the like.

Elements of the result that padding adds are cut off, so that any term may be padded along variables
of the result. Terms that it adds have to leave results as they are: a sum of products, or of what
differences make, adds zeros.
"""

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
    certain_loads,
    dtype,
    loads,
    walk_exprs,
)


@dataclass(frozen=True)
class Einsum:
    """A reduction by `op` of a `term` that is computed of loads."""

    block: Block
    store: Store
    op: str
    term: Expr
    loads: tuple[Load, ...]

    @property
    def is_neutral(self) -> bool:
        """Whether the term changes nothing where all that it reads is padding."""
        from tensorir import is_neutral

        return is_neutral(self.term, self.op)


def einsum_of(node: Block) -> Einsum:
    """The parts of a block that is a reduction of loads; refuses any other, saying what is in the
    way."""
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
    (term,) = terms
    found = tuple(dict.fromkeys(loads(term)))
    everywhere = {*found} == {*certain_loads(term)}
    require(
        everywhere and len(found) > 0 and not any(_may_fail(e, op) for e in walk_exprs(term)),
        where,
        f"block {where!r} reduces {term!r} by {op}, which has no value for some of what may be "
        "read in place of it",
        "let a stage of its own compute what is conditional, and integers of floats and quotients",
    )
    for load in found:
        require(
            load.buffer is not store.buffer,
            where,
            f"block {where!r} uses {load.buffer.name!r} in other ways than to update it",
        )
    return Einsum(node, store, op, term, found)


def padded_form(node: Block) -> Einsum | None:
    """The parts of a block that may be padded, None where it may not."""
    try:
        return einsum_of(node)
    except Illegal:
        return None


def _may_fail(e: Expr, op: str) -> bool:
    """Whether a value is none for some numbers: a quotient of integers by what is read, an integer
    of a float that is computed, or may be infinite."""
    if isinstance(e, BinOp):
        return e.op in ("//", "%") and not dtype.is_float(e.dtype) and e.b.has_loads
    if not isinstance(e, Cast) or dtype.is_float(e.dtype) or not dtype.is_float(e.a.dtype):
        return False
    return e.a.has_loads and not (isinstance(e.a, Load) and op in ("+", "*"))


def unused(load: Load, wanted: list[Var]) -> Var | None:
    """The first of the variables that the load does not use."""
    return next((var for var in wanted if var not in load.indices), None)
