"""Chains: stages that share rows, such as softmax and norms, each row read and written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.rules.chain_rows import InRows, find_rows, put_in_rows
from autotune.rules.gpu.move import MovePlan
from autotune.rules.gpu.reductions import contiguous
from autotune.rules.group import Group, instances
from autotune.rules.plan import Plan
from schedule import Schedule
from tensorir import Gpu, IterKind

WARPS = (1, 2, 4, 8, 16, 32)
WAYS = ("warp", "block", "lanes")
KEEP = (None, "shared", "nothing")

KEPT = 8
"""Elements of a row of each array that are good for one to keep: as many loads are under way, and
there is room for others."""

MOST_KEPT = 4 * KEPT
"""From here on a row is read again."""


def chain_plans(sch: Schedule, groups: Sequence[Group], gpu: Gpu) -> list[Plan]:
    """A plan for each chain of the program; the later ones are found first."""
    taken: set[str] = set()
    found: list[Plan] = []
    for name in reversed(sch.get_blocks()):
        plan = None if name in taken else _chain(sch, str(name), groups, gpu)
        if plan is not None:
            found.append(plan)
            taken.update(plan.stages)
    return found


def _chain(sch: Schedule, last: str, groups: Sequence[Group], gpu: Gpu) -> MovePlan | None:
    """The plan for the largest chain that ends in `last`; None where there is none."""
    rows = find_rows(sch, last)
    while rows is not None:
        members = _sharing(rows, groups)
        if members is None:
            return None
        if members == rows.order.members:
            break
        rows = find_rows(sch, last, members)
    if rows is None:
        return None
    return _plan(sch, rows, gpu)


def _sharing(rows: InRows, groups: Sequence[Group]) -> tuple[str, ...] | None:
    """The stages from the first on after which all are numbers of a row, elements of it, or sums of
    a row without other axes; None where nothing is left of it. What ends another sum is no part."""
    sch, first, sums = rows.sch, 0, 0
    ends: set[str | None] = set()
    for at, stage in enumerate(rows.stages):
        block = sch.state.block(stage.block)
        if block.is_reduction and stage.width > 1:
            first, sums = at + 1, 0
            ends |= {group.epilogue for group in groups if group.block == stage.block}
        else:
            sums += block.is_reduction
    kept = [stage for stage in rows.stages[first:] if stage.block not in ends]
    if not kept or kept[-1] is not rows.stages[-1]:
        return None
    back = any(stage.width > 1 for stage in kept[1:]) or sums > 1
    return tuple(stage.block for stage in kept) if sums and back and len(kept) > 1 else None


def _plan(sch: Schedule, rows: InRows, gpu: Gpu) -> MovePlan | None:
    order, state = rows.order, rows.sch.state
    sums = [b for b in map(state.block, order.members) if b.is_reduction]
    terms = max(instances(b, IterKind.REDUCE) for b in sums)
    warps = tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)
    ways = "lanes" if contiguous(sums[0]) is IterKind.SPATIAL else "block"
    each = gpu.warp if ways == "block" else 1
    shared = min((n for n in warps if n * each * KEPT >= terms), default=warps[-1])
    keep = None if shared * each * MOST_KEPT >= terms else "nothing"
    likely: list[dict[str, Any]] = [{"by": ways, "warps": shared, "keep": keep}]
    if ways == "block" and terms <= 2 * KEPT * gpu.warp:
        likely = [{"by": "warp", "warps": 8, "keep": None}] + likely * (terms > KEPT * gpu.warp)
    group = Group(order.last)

    def in_rows(sch: Schedule, group: Group, by: str, warps: int, keep: str | None) -> None:
        from schedule import library

        put_in_rows(sch, order)
        last = order.members[-1]
        library.gpu.rows(sch, last, by=by, warps=warps, keep=keep, stages=order.members)

    plan = MovePlan(
        "chain", group, gpu, sch.copy(), in_rows, {"by": WAYS, "warps": warps, "keep": KEEP},
        likely, "reassociated", order.members,
    )  # fmt: skip
    return plan if plan.works else None
