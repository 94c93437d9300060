"""What a reduction combines its terms by, whether they may be combined in parts, and the parts of a
term that it adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedule.analysis.uses import written
from schedule.errors import require
from tensorir import (
    ASSOCIATIVE,
    BinOp,
    Block,
    Combiner,
    Expr,
    Load,
    Store,
    carries,
    combiner_of,
    dtype,
    loads,
    neutral,
)


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


def parts_of(store: Store) -> list[tuple[Expr, bool]]:
    """What a block adds to or subtracts from what it has so far, in the order of the text, and
    whether it is added; nothing of a value that is no such sum."""
    own, value = Load(store.buffer, store.indices), store.value
    parts = [] if value.dtype == dtype.INDEX else list(_parts(value, True))
    rest = [(e, plus) for e, plus in parts if e is not own or not plus]
    alone = all(load.buffer is not store.buffer for e, _ in rest for load in loads(e))
    return rest if alone and len(rest) + 1 == len(parts) else []


def one_by_one(store: Store) -> Expr | None:
    """The value of a reduction with its parts added one by one; None where that is what it is."""
    made: Expr = Load(store.buffer, store.indices)
    parts = parts_of(store)
    for e, plus in parts:
        made = BinOp("+" if plus else "-", made, e)
    return None if len(parts) < 2 or made is store.value else made


def _parts(e: Expr, plus: bool) -> Iterator[tuple[Expr, bool]]:
    """All that is added and subtracted in a value, which is `plus` or minus in another one."""
    if isinstance(e, BinOp) and e.op in ("+", "-"):
        yield from _parts(e.a, plus)
        yield from _parts(e.b, plus == (e.op == "+"))
    else:
        yield e, plus
