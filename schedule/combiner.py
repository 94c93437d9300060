"""What a reduction combines its terms by, and whether they may be combined in parts."""

from __future__ import annotations

from dataclasses import replace

from schedule.analysis import accesses, written
from schedule.einsum import neutral
from schedule.errors import require
from tensorir import BinOp, Block, Combiner, Expr, Load, Select, Stmt, Store, carries, combiner_of

ASSOCIATIVE = ("+", "*", "min", "max", "and", "or")
IDEMPOTENT = ("min", "max", "and", "or")
"""Those that may start from any value in each part."""


def combiner(node: Block) -> tuple[Store, str]:
    """The update of a reduction and its operation; refuses terms that cannot be regrouped."""
    where = node.name
    require(
        node.init is not None,
        where,
        f"block {where!r} is no reduction, or its init was split off",
    )
    store = node.body
    value = store.value if isinstance(store, Store) else None
    while isinstance(value, Select) and value.b is _old(store):
        value = value.a  # a reduction with a condition keeps the old value elsewhere
    op = value.op if isinstance(value, BinOp) else ""
    require(
        isinstance(store, Store) and op in ASSOCIATIVE and isinstance(node.init, Store),
        where,
        f"block {where!r} does not reduce one value by one of {' '.join(ASSOCIATIVE)}, "
        "which are known to be associative and commutative",
    )
    assert isinstance(store, Store) and isinstance(value, BinOp) and isinstance(node.init, Store)
    first = node.init.value
    require(
        op in IDEMPOTENT or first is neutral(op, store.buffer.dtype),
        where,
        f"block {where!r} starts from {first!r}, which every part of the reduction would add again",
    )
    own = [a for a in accesses(node) if a.buffer is store.buffer and not a.is_write]
    parts = [p for p in (value.a, value.b) if isinstance(p, Load) and p.buffer is store.buffer]
    same = all(all(x is y for x, y in zip(a.indices, store.indices)) for a in own)
    require(
        len(parts) == 1 and same,
        where,
        f"block {where!r} uses {store.buffer.name!r} in other ways than to update it",
    )
    return store, op


def _old(store: Stmt) -> Expr | None:
    """What stood where a store writes."""
    return store.buffer[store.indices] if isinstance(store, Store) else None


def any_combiner(node: Block) -> Combiner:
    """How the parts of a reduction, of one value or of several, are merged, and what each of them
    starts from; refuses others."""
    where = node.name
    hint = "rfactor before decompose_reduction" if node.is_reduction else None
    require(
        node.init is not None,
        where,
        f"block {where!r} is no reduction, or its init was split off",
        hint,
    )
    for buffer in written(node):
        require(
            not carries(node, buffer),
            where,
            f"block {where!r} uses {buffer.name!r} in other ways than to update it",
        )
    found = combiner_of(node)
    require(
        found is not None,
        where,
        f"block {where!r} does not reduce by one of {' '.join(ASSOCIATIVE)}, which are known to be "
        "associative and commutative, nor by a combiner of which that is found",
    )
    assert found is not None
    starts, parts = ", ".join(map(repr, found.start)), _part_starts(found)
    require(
        parts is not None,
        where,
        f"block {where!r} starts from {starts}, which every part of the reduction would add again",
    )
    return found if parts is found.start else replace(found, start=parts or ())


def _part_starts(found: Combiner) -> tuple[Expr, ...] | None:
    """What the whole starts from, if parts may start there again, or else what changes nothing;
    None where that is not known."""
    if found.restarts:
        return found.start
    values = [neutral(op, s.buffer.dtype) for op, s in zip(found.ops, found.stores)]
    known = tuple([v for v in values if v is not None])
    return known if known and len(known) == len(found.stores) else None
