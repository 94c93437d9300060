"""Reductions whose threads share the terms: along rows, along columns, and to few values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

from autotune.rules.gpu.draft import Draft, in_rows, moved, quickest
from autotune.rules.gpu.elementwise import elementwise_plans
from autotune.rules.gpu.move import CLOSE, Move, MovePlan, Options, by_time
from autotune.rules.group import Group, in_scan, instances, size, stride_in
from autotune.rules.plan import Plan
from schedule import Refusal, Schedule, ScheduleError, library
from tensorir import (
    Architecture,
    Block,
    Gpu,
    IterKind,
    Var,
    accesses,
    body_loads,
    dtype,
    int_value,
)

WARPS = (1, 2, 4, 8, 16)
PARTS = (1, 4, 16, 64)
NOTHING: Mapping[str, str] = MappingProxyType({})
PIECES = (8, 4, 2, 1)
SHARE = 8
"""Warps that share rows where a thread has several columns, and rows of it in a step."""

MOST_WHOLE = 256
"""Columns of which a block of threads may have all."""

FEW_COLUMNS = 4 * Gpu.warp
"""Rows side by side in memory of which a block of threads has all."""

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def reduction_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The ways to share the terms of a reduction, that of the least estimated time first: warps or
    blocks of threads for rows of what is contiguous, lanes for columns, and two kernels where there
    are few results."""
    block = sch.state.block(group.block)
    if not block.is_reduction:
        return []
    if instances(block, IterKind.REDUCE) < gpu.warp:
        return _of_few_terms(sch, group, gpu, block)
    plans = [*_plans(sch.copy(), group, gpu, block)]
    drafted = [(n, point) for n, plan in enumerate(plans) for point in plan.likely]
    bytes_moved = moved(sch, group.blocks)
    own = _whole(sch, group)
    drafts = [_draft(block, gpu, bytes_moved, own, **point) for _, point in drafted]
    worth, *_ = quickest(drafted, drafts, gpu)
    first, others = list[MovePlan](), list[MovePlan]()
    for n, plan in enumerate(plans):
        likely = [point for at, point in worth if at == n]
        left = [point for point in plan.likely if point not in likely]
        if likely:
            first.append(replace(plan, likely=likely, otherwise=[*left, *plan.otherwise]))
        else:
            others.append(plan)
    return [*by_time(first), *others]


def _plans(sch: Schedule, group: Group, gpu: Gpu, block: Block) -> Iterator[MovePlan]:
    results, terms = (instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    warps = tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)

    def plan(
        name: str, move: Move, options: Options, *likely: Mapping[str, Any],
        otherwise: Sequence[Mapping[str, Any]] = (), told: Mapping[str, str] = NOTHING,
    ) -> MovePlan:  # fmt: skip
        close = CLOSE if any(point.get("sectors") for point in likely) else 1.0
        return MovePlan(
            name, group, gpu, sch, move, options, likely, "reassociated", close=close,
            otherwise=otherwise, told=told,
        )  # fmt: skip

    wanted = 2 * gpu.multiprocessors
    columns = contiguous(block) is IterKind.SPATIAL
    whole = _whole(sch, group) if columns else 0
    if results < wanted and terms >= 64 * gpu.warp and not whole:
        options: Options = {"blocks": BLOCKS, "warps": warps, "sectors": (False, True)}
        first, *left = _parts_of_few(block, wanted, results, terms)
        yield plan("few_values", _few_values, options, first, otherwise=left)
    if columns:
        parts = wanted // max(1, results // gpu.warp)
        cut = max(n for n in PARTS if n <= max(1, min(parts, terms // gpu.warp)))
        more = next((n for n in PARTS if n > cut and n <= terms // gpu.warp), cut)
        options = {"warps": warps, "parts": PARTS}
        both: list[dict[str, Any]]
        both = [{"warps": n, "parts": parts} for parts in sorted({1, cut}) for n in (8, 16)]
        both += [{"warps": WARPS[-1], "parts": more}] * (more > cut)
        if (wide := _side_by_side(sch, group, gpu)) > 1:
            options["wide"] = (1, wide)
            cuts = [n for n in PARTS if n <= max(1, parts * wide) and _shares(terms, n)]
            near = {"warps": SHARE, "wide": wide}
            both = [*({**near, "parts": n} for n in cuts[:1] + cuts[1:][-1:]),
                    *({**point, "wide": 1} for point in both)]  # fmt: skip
        if whole:
            options |= {"whole": (False, True), "parts": BLOCKS}
            at_once = PIECES[0] * max(SHARE * gpu.warp, 2 * whole)  # elements of a block
            most = min(wanted * whole // results, terms * whole // at_once)
            cut = max(n for n in BLOCKS if n <= max(1, most))
            own = {"warps": SHARE, "parts": cut, "whole": True, "wide": 1}
            both = [{**point, "whole": False} for point in both]
            both = [{name: own[name] for name in options}, *both]
        yield plan("columns", _columns, options, *both)
        return
    options = {
        "by": ("warp", "block"), "warps": warps, "sectors": (False, True),
        "keep": (None, "shared", "nothing"),
    }  # fmt: skip
    each = [n for n in warps if n <= max(1, terms // (2 * gpu.warp))]
    ways = [{"by": "warp", "warps": 8}] * (terms <= 32 * gpu.warp)
    ways += [{"by": "block", "warps": n} for n in each[-2:]]
    likely = [{**way, "sectors": False, "keep": None} for way in ways]
    again = [{**point, "keep": "nothing"} for point in likely]
    if library.gpu.begins_within(block):
        point = {"by": "block", "sectors": True, "keep": "shared"}
        likely = [*({**point, "warps": n} for n in each[-2:]), *likely]
    told = _without_units(sch.copy(), group)
    yield plan("rows", _rows, options, *likely, otherwise=again, told=told)


def _of_few_terms(sch: Schedule, group: Group, gpu: Gpu, block: Block) -> list[Plan]:
    """A thread for each row of few terms, ahead of what reads them in place unless that takes less
    time; none where one access of a thread has a row, or rows are many columns in memory."""
    results, terms = (instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    item, along = _item(block), contiguous(block) is IterKind.REDUCE
    fits = along and item and gpu.access_bytes % (max(1, terms) * item) == 0
    if fits or terms < 2 or results < gpu.warp or not (along or few_columns(block)):
        return []
    options: Options = {"warps": tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)}
    likely = [{"warps": 4}]
    plan = MovePlan("rows", group, gpu, sch.copy(), _short_rows, options, likely, "reassociated")
    if not plan.works:
        return []
    if plan.is_least:
        return [plan]
    others = elementwise_plans(sch, group, gpu)
    least = min(other.cycles(other.default()) for other in others)
    close = plan.cycles(plan.default()) <= CLOSE * least
    return [plan, *others] if close else [*others, plan]


def _draft(
    block: Block, gpu: Gpu, bytes_moved: float, columns: int, warps: int, by: str = "",
    parts: int = 0, blocks: int = 1, wide: int = 1, whole: bool = False, **options: Any,
) -> Draft:  # fmt: skip
    """What a point asks for: one for columns has `parts`, one for few values `blocks`. Their loops
    over terms are not written out."""
    results, terms = (instances(block, kind) for kind in (IterKind.SPATIAL, IterKind.REDUCE))
    way = by or ("lanes" if parts else "block")
    if whole:
        return in_rows(
            gpu, bytes_moved, results // columns, terms * columns, by="block", warps=warps,
            parts=parts, loops=True, piece=PIECES[0],
        )  # fmt: skip
    if way == "lanes" and columns:  # some have none
        results = results // columns * -(-columns // gpu.warp) * gpu.warp
    return in_rows(
        gpu, bytes_moved, results // wide, terms, by=way, warps=warps, parts=parts or blocks,
        loops=not by, piece=_piece(terms) if wide > 1 else 0,
    )  # fmt: skip


def contiguous(block: Block) -> IterKind | None:
    """Of what kind the variable is along which neighbours in what is read are neighbours too."""
    for it in reversed(block.iters):
        if int_value(it.extent) != 1 and _is_near(block, it.var):
            return it.kind
    return None


def stage_on_axes(sch: Schedule, name: str, merged: bool = True) -> bool:
    """Give a stage, or a sum, a variable for each of its axes, and its result these axes where that
    is none of the program; tell whether that changes anything. What is refused stays as it is.

    merged  whether axes that lie side by side are one
    """
    if in_scan(sch, sch.state.block(name)):
        return False
    steps = len(sch.trace)
    try:
        if not merged:
            sums = sch.state.block(name).is_reduction
            return library.in_axes(sch, name, merged=False, terms=sums)
        changes = library.with_result_on_axes(sch, name)
    except Refusal:  # it has several results, or loops of its own no more
        sch.undo(len(sch.trace) - steps)
        return False
    if changes:
        library.with_result_on_axes(sch, name)  # terms in the order of memory may be one axis now
    return changes


def _both_on_axes(sch: Schedule, group: Group) -> None:
    """Give a sum and what is done to it a variable for each axis, if these are the same: where
    results are turned, those of one may be several of the other."""
    names, steps = group.without(group.padding).blocks, len(sch.trace)
    for name in names:
        stage_on_axes(sch, name)
    blocks = map(sch.state.block, names)
    if len({tuple(it.extent for it in block.spatial) for block in blocks}) > 1:
        sch.undo(len(sch.trace) - steps)


def few_columns(block: Block) -> bool:
    """Whether rows side by side in memory are few, and end within a sector."""
    read = next(a for a in accesses(block) if not a.is_write)
    near = library.gpu.in_memory(read)[-1:]
    count = prod(size(it.extent) for it in block.iters if it.var in near)
    return 1 < count <= FEW_COLUMNS and count % library.gpu.in_sector(read.buffer.dtype) > 0


def _whole(sch: Schedule, group: Group) -> int:
    """Columns side by side, of several axes if they are, of which a block is to have all, as lanes
    would be left without one; 0 where there are none such."""
    block = sch.state.block(group.block)
    near = [it for it in block.iters if it.kind is IterKind.SPATIAL and _is_near(block, it.var)]
    columns = (int_value(near[-1].extent) or 0) if near else 0
    with suppress(library.NoContraction):  # those of a variable then
        c = library.find_contraction(sch, group.block)
        along = {n for o in c.operands for n, step in enumerate(o.strides) if step == 1}
        columns = max((c.axes[n].extent or 0 for n in along & {*c.spatial}), default=columns)
    return columns if 1 < columns <= MOST_WHOLE and columns % Gpu.warp else 0


def _parts_of_few(
    block: Block, wanted: int, results: int, terms: int
) -> Iterator[dict[str, Any]]:
    """How blocks of threads share long sums with few results, the likely way first: of rows that
    begin within a sector parts for which blocks have room twice."""
    most = min(2 * wanted // max(1, results), terms // (16 * Gpu.warp))
    few = {"blocks": max(n for n in BLOCKS if n <= max(BLOCKS[0], most)), "warps": WARPS[3]}
    room = max(few["blocks"], 2 * terms * _item(block) // Architecture.shared_default)
    along = contiguous(block) is IterKind.REDUCE
    if along and library.gpu.begins_within(block) and room <= BLOCKS[-1]:
        yield {**few, "blocks": next(n for n in BLOCKS if n >= room), "sectors": True}
    yield {**few, "sectors": False}


def _item(block: Block) -> int:
    """Bytes of the largest element that a block reads, 0 where it reads nothing."""
    return max((dtype.itemsize(load.buffer.dtype) for load in body_loads(block)), default=0)


def _is_near(block: Block, var: Var) -> bool:
    return any(stride_in(load, var, block) == 1 for load in body_loads(block))


def _side_by_side(sch: Schedule, group: Group, gpu: Gpu) -> int:
    """Columns of narrow types that a bank's word has, where each row begins with one; 1 where they
    are no tiles of a contraction."""
    try:
        c = library.find_contraction(sch, group.block, group.epilogue)
    except library.NoContraction:
        return 1
    if any(axis.extent is None for axis in c.axes):
        return 1
    steps = [step for o in c.operands for n, step in enumerate(o.strides) if n != c.spatial[-1]]
    wide = min(max(1, gpu.bank_bytes // dtype.itemsize(o.dtype)) for o in c.operands)
    while wide > 1 and (None in steps or any((step or 0) % wide for step in steps)):
        wide //= 2
    return wide


def _piece(terms: int) -> int:
    """Rows of a thread in a step, where it has several columns."""
    return max(n for n in PIECES if terms % n == 0)


def _shares(terms: int, parts: int) -> bool:
    """Whether warps of a block have as many rows each of a part, for two steps at least."""
    whole = SHARE * parts * _piece(terms)
    return terms % whole == 0 and terms >= 2 * whole


def _inline_padding(sch: Schedule, group: Group) -> None:
    for pad in group.padding:
        sch.compute_inline(pad)


def _rows(
    sch: Schedule, group: Group, by: str, warps: int, sectors: bool, keep: str | None
) -> None:
    _inline_padding(sch, group)
    _without_units(sch, group)
    last = group.epilogue or group.block
    library.gpu.rows(
        sch, last, by=by, warps=warps, keep=keep, sectors=sectors, stages=[group.block]
    )


def _short_rows(sch: Schedule, group: Group, warps: int) -> None:
    """Rows that lie side by side in memory are those of one axis: pieces of them begin with sectors
    wherever another axis ends."""
    _inline_padding(sch, group)
    _without_units(sch, group)
    if group.epilogue is not None:
        _both_on_axes(sch, group)
    else:  # a result: parts of its axis are stored where they were
        with suppress(ScheduleError):  # its loops are not its own
            library.in_axes(sch, group.block)
    last = group.epilogue or group.block
    library.gpu.short_rows(sch, last, warps=warps, stages=[group.block])


def _without_units(sch: Schedule, group: Group) -> dict[str, str]:
    """Leave out axes of extent 1 of what has rows, which are none of what it reads, and those that
    an epilogue has and the sums have not; returns what is refused, and why."""
    names, refused = [name for name in (group.block, group.epilogue) if name is not None], {}
    blocks = [sch.state.block(name) for name in names]
    sizes = [int_value(it.extent) for it in blocks[0].spatial]
    if len({*map(_outer, blocks)}) > 1 or {1} < set(sizes):
        for name in names:
            try:
                library.in_axes(sch, name, merged=False)
            except ScheduleError as error:  # its loops are not its own
                refused[f"{name!r} without axes of one value"] = error.reason
    return refused


def _outer(block: Block) -> int:
    return sum(it.kind is IterKind.SPATIAL for it in block.iters)


def _columns(
    sch: Schedule, group: Group, warps: int, parts: int, wide: int = 1, whole: bool = False
) -> None:
    """Of several columns side by side a thread has each: they are tiles of a contraction."""
    _inline_padding(sch, group)
    if wide == 1:
        if whole:  # of two rows that fewer threads have no room for
            warps = max(warps, -(-2 * _whole(sch, group) // Gpu.warp))
        if group.epilogue is not None:  # which reads columns of several axes as one row, too
            _both_on_axes(sch, group)
        library.gpu.columns(
            sch, group.block, warps=warps, parts=parts, whole=whole, epilogue=group.epilogue
        )
        return
    c = library.find_contraction(sch, group.block, group.epilogue)
    deep, near = max(c.reduced, key=lambda n: c.axes[n].extent or 0), c.spatial[-1]
    cut, terms = library.gpu.Cut, c.axes[deep].extent or 1
    rows = cut(warps=warps, elements=_piece(terms))
    shares = {near: cut(lanes=Gpu.warp, elements=wide), deep: rows}
    cuts = tuple(shares.get(n, cut()) for n in range(len(c.axes)))
    plan = library.gpu.TilePlan(cuts, (), c.written, split=parts, along=deep)
    library.gpu.make_tiles(sch, c, plan)


def _few_values(sch: Schedule, group: Group, blocks: int, warps: int, sectors: bool) -> None:
    _inline_padding(sch, group)
    library.gpu.whole(
        sch, group.block, blocks=blocks, warps=warps, sectors=sectors, epilogue=group.epilogue
    )
