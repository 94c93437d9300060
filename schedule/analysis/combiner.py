"""What a reduction combines its terms by, and whether they may be combined in parts."""

from __future__ import annotations

from dataclasses import replace

from schedule.analysis.uses import written
from schedule.errors import require
from tensorir import ASSOCIATIVE, Block, Combiner, Expr, carries, combiner_of, neutral


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
