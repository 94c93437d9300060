"""The operations that the terms of a contraction are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedule.analysis.combiner import one_by_one, parts_of
from schedule.library.contraction.axes import Expression
from tensorir import (
    BinOp,
    Block,
    Cast,
    Const,
    Expr,
    Load,
    Store,
    Var,
    dtype,
    loads,
    replace,
    variables,
    walk_exprs,
    walk_places,
)


def expressions_of(node: Block, store: Store, found: Sequence[Load]) -> Iterator[Expression]:
    """The operations in the value of a reduction that read something, and not what it has so far:
    the largest first, each once. Operands are told by their places in `found`."""
    numbers = {load: number for number, load in reversed([*enumerate(found)])}
    for value, place in walk_places(store.value, into=lambda e: not isinstance(e, Load)):
        read = () if isinstance(value, Load) else tuple(dict.fromkeys(loads(value)))
        if read and all(load.buffer is not store.buffer for load in read):
            used = (n for n, it in enumerate(node.iters) if it.var in variables(value))
            yield Expression(place, tuple(used), tuple([numbers[load] for load in read]))


def converted(store: Store) -> set[Expr]:
    """What a reduction reads as another type than it has in memory."""
    return {e.a for e in walk_exprs(store.value) if isinstance(e, Cast) and isinstance(e.a, Load)}


def chain_of(store: Store) -> tuple[int, int]:
    """The parts of a term that can be added one by one, and the instructions which that saves."""
    made = one_by_one(store)
    found = store if made is None else replace(store, value=made)
    saved = operations_of(store) - operations_of(found)
    return (len(parts_of(store)), saved) if saved > 0 else (1, 0)


def operations_of(store: Store) -> int:
    """Instructions on values: a product that is added or subtracted is one with that."""
    leaves = (Const, Load, Var)
    values = [n for n in walk_exprs(store.value) if n.dtype != dtype.INDEX]
    fused = sum(
        isinstance(n, BinOp) and n.op in "+-" and dtype.is_float(n.dtype)
        and any(isinstance(part, BinOp) and part.op == "*" for part in (n.a, n.b))
        for n in values
    )  # fmt: skip
    return sum(not isinstance(n, leaves) for n in values) - fused
