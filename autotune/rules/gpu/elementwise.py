"""What each thread computes alone: elementwise stages, and all that no other rule takes."""

from __future__ import annotations

from typing import Any

from autotune.rules.forms import moved_on_axes
from autotune.rules.gpu.draft import moved
from autotune.rules.gpu.move import CLOSE, MovePlan
from autotune.rules.gpu.scan import recurrence_plan
from autotune.rules.group import Group, instances, size
from schedule import Schedule, ScheduleError, library
from tensorir import Block, Gpu, IterKind, accesses, body_loads, int_value, variables

WARPS = (2, 4, 8, 16)
ITEMS = (1, 2, 4, 8)
ROWS = (1, 4, 8, 16, 32)
LONG = 20
"""Sectors of a row from which on one more at each end of it is little."""


def elementwise_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[MovePlan]:
    """The plan for blocks that store at their own variables; for others none but what lowering
    does, which says so."""
    options: dict[str, tuple[int, ...]] = {
        "warps": tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block),
        "items": ITEMS,
    }
    large = instances(sch.state.block(group.block)) >= gpu.full
    likely = [{"warps": 8, "items": items} for items in (ITEMS[2::-1] if large else ITEMS[:1])]
    told: dict[str, str] = {}
    on_axes = _better_on_axes(sch, group, told)
    if _reads_alike(on_axes or sch, group):
        options["rows"] = ROWS
        rows = [{"warps": 8, "items": 1, "rows": n} for n in ROWS[3:1:-1]]
        plain = [{"rows": 1, **point} for point in likely]
        likely = [*rows, plain[-1]] if large else plain
    move = _elements if on_axes is None else _elements_on_axes
    plan = MovePlan("elementwise", group, gpu, sch.copy(), move, options, likely, told=told)
    if plan.works:
        other = _realigned(sch, group, gpu, plan)
        return [plan] if other is None else [other, plan]
    if any(it.kind is IterKind.OPAQUE for it in sch.state.block(group.block).iters):
        scan = recurrence_plan(sch, group, gpu)
        if scan.works:
            return [scan]
    why = "no rule is for it: what is independent in it is bound when it is lowered"
    return [MovePlan("as_written", group, gpu, sch, _nothing, {}, [{}], told={"threads": why})]


def _nothing(sch: Schedule, group: Group) -> None:
    """Lowering binds what nobody bound."""


def _realigned(sch: Schedule, group: Group, gpu: Gpu, plain: MovePlan) -> MovePlan | None:
    """The plan for rows that begin elsewhere within sectors than what is read for them, if threads
    that store where they read ask for more than each sector once; None where that takes longer, or
    rows are short."""
    from autotune.gpu.work import under_way

    block = sch.state.block(group.block)
    few = moved(sch, group.blocks) <= under_way(gpu)
    if few or block.is_reduction or group.epilogue is not None or plain.waste <= CLOSE:
        return None
    store = next(a for a in accesses(block) if a.is_write)
    places, sizes = library.gpu.in_memory(store), {it.var: size(it.extent) for it in block.iters}
    row = sizes[places[-1]] if places else 0
    if row < LONG * library.gpu.in_sector(store.buffer.dtype):
        return None
    items = [n for n in ITEMS if n * 8 * gpu.warp <= max(row, 8 * gpu.warp)]
    options = {name: plain.options[name] for name in ("warps", "items")}
    likely = [{"warps": 8, "items": items[-1]}]
    plan = MovePlan("realigned", group, gpu, sch.copy(), _realign, options, likely)
    if not plan.works or plan.waste > plain.waste / CLOSE:
        return None
    quick = plan.cycles(plan.default()) <= CLOSE * plain.cycles(plain.default())
    return plan if quick else None


def _realign(sch: Schedule, group: Group, warps: int, items: int) -> None:
    for pad in group.padding:
        sch.compute_inline(pad)
    library.gpu.realigned(sch, group.block, warps=warps, items=items)


def _reads_alike(sch: Schedule, group: Group) -> bool:
    """Whether an elementwise stage reads something that moves with its last variable, and not with
    its first one."""
    block = sch.state.block(group.block)
    places = [library.gpu.in_memory(access) for access in accesses(block) if access.is_write]
    if block.is_reduction or group.epilogue is not None or len(places) != 1 or not places[0]:
        return False
    used = [frozenset().union(*map(variables, load.indices)) for load in body_loads(block)]
    first, last = places[0][0], places[0][-1]
    return any(last in each and first not in each for each in used)


def _better_on_axes(sch: Schedule, group: Group, refused: dict[str, str]) -> Schedule | None:
    """A stage with a variable for each axis, where accesses move more elements then, or something
    is read for several rows alike; else None."""
    block, trial = group.block, sch.copy()
    wide = library.gpu.widest(sch, block) > 1
    if wide and _at_variables(sch.state.block(block)) or not moved_on_axes(trial, block, refused):
        return None
    wider = not wide and library.gpu.widest(trial, block) > 1
    return trial if wider or _reads_alike(trial, group) else None


def _at_variables(block: Block) -> bool:
    """Whether a stage accesses all at variables alone that have several values."""
    wide = {it.var for it in block.iters if int_value(it.extent) != 1}
    return all(i in wide for access in accesses(block) for i in access.indices)


def _elements_on_axes(sch: Schedule, group: Group, **options: Any) -> None:
    moved_on_axes(sch, group.block, {})
    _elements(sch, group, **options)


def _elements(sch: Schedule, group: Group, warps: int, items: int, rows: int = 1) -> None:
    """Padding is computed where it is read, and an epilogue in registers."""
    threads = warps * Gpu.warp
    for pad in group.padding:
        sch.compute_inline(pad)
    if rows > 1:
        library.gpu.same_rows(sch, group.block, threads=threads, rows=rows)
        return
    if group.epilogue is not None:
        try:
            library.gpu.elementwise(
                sch, group.block, threads=threads, items=items, epilogue=group.epilogue
            )
            return
        except ScheduleError:  # of another shape: a kernel of its own
            library.gpu.elementwise(sch, group.epilogue, threads=threads, items=items)
    library.gpu.elementwise(sch, group.block, threads=threads, items=items)
