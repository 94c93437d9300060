"""Chains: stages that share rows, such as softmax and norms, each row read and written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, prod
from typing import Any

from autotune.rules.chain_rows import InRows, put_in_rows
from autotune.rules.find_rows import find_rows, may_have_rows
from autotune.rules.followers import followers
from autotune.rules.gpu.draft import in_rows, moved, quickest
from autotune.rules.gpu.move import CLOSE, MovePlan, by_time
from autotune.rules.gpu.product import is_product
from autotune.rules.gpu.results import results_apart, results_of_rows
from autotune.rules.gpu.sums.reductions import contiguous, few_columns, stage_on_axes
from autotune.rules.group import Group, instances, stores_of
from autotune.rules.plan import Plan
from schedule import LoopRef, Schedule, ScheduleError, library
from tensorir import (
    Block,
    Gpu,
    IterKind,
    Var,
    accesses,
    body_loads,
    dtype,
    int_value,
    variables,
)

WARPS = (1, 2, 4, 8, 16, 32)
TURNS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
WAYS = ("warp", "block", "lanes", "thread")
KEEP = (None, "shared", "nothing")

KEPT = 8
"""Elements of a row of each array that are good for one to keep: as many loads are under way, and
there is room for others."""

MOST_KEPT = 4 * KEPT
"""From here on a row is read again."""

ALIKE = 24
"""Rows of a block of threads for which it is good to read once what they all read: 4 % is left."""

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Blocks of threads that share a row, in kernels of their own from two on."""

PIECE = 4096
"""Elements of a row that a block of threads is to have at least."""

FULL = 0.75
"""The share of the multiprocessors that are to have a block."""


class ChainPlan(MovePlan):
    """The stages of one chain in one kernel, or in a few."""

    @property
    def refused(self) -> Mapping[str, str]:
        """The likely point that primitives refused, and why."""
        if self.refusal is None:
            return {}
        what = "a likely point of the chain" if self.works else "the chain"
        return {f"{what} that ends in {self.group.block!r}": self.refusal.reason}


def chain_plans(sch: Schedule, groups: Sequence[Group], gpu: Gpu) -> list[Plan]:
    """A plan for each chain of the program; the later ones are found first. One that primitives
    refuse is told, and takes no stages. Sums that have tiles are in no chain by themselves."""
    own = {group.block: group for group in groups}  # of which the contraction is asked again
    sums = [name for name in sch.get_blocks() if sch.state.block(name).is_reduction]
    if all(is_product(sch, own.get(str(name)) or Group(str(name))) for name in sums):
        return []
    taken: set[str] = set()
    found: list[Plan] = []
    known = {name for group in groups for name in group.blocks}
    for name in reversed(sch.get_blocks()):
        plan = None if name in taken or name not in known else _chain(sch, str(name), groups, gpu)
        if plan is not None:
            found.append(plan)
            taken.update(plan.stages if plan.works else ())
    return found


def _chain(sch: Schedule, last: str, groups: Sequence[Group], gpu: Gpu) -> MovePlan | None:
    """The plan for the largest chain that ends in `last`, one that works if there is one; None
    where there is no chain."""
    if not may_have_rows(sch, last):
        return None
    rows = _largest(sch, last, groups)
    members = (last,) if rows is None else rows.order.members
    whole = _plan_with_results(sch, last, groups, len(members), gpu)
    if whole is not None and whole.works:
        return whole
    more = _members_on_axes(sch, last, groups) if _in_parts(sch, members) else ()
    larger = _plan_on_axes(sch, more, gpu) if len(more) > len(members) else None
    if larger is not None and larger.works:
        return larger
    if rows is None:
        return larger
    found: list[MovePlan] = []
    ways = (
        partial(_plan_on_axes, sch, members, gpu),
        partial(_plan, sch, rows, gpu),
        partial(_plan_on_axes, sch, members, gpu, merged=False),
        partial(_plan_on_axes, sch, members, gpu, one=True),
    )
    for way in ways:  # what is left where likely points are refused may take much longer
        found += [plan for plan in (way(),) if plan is not None]
        if found and found[-1].works and found[-1].refusal is None:
            break
    return next(iter(by_time(found)), found[-1])


def _in_parts(sch: Schedule, members: Sequence[str]) -> bool:
    """Whether some stages read or write elsewhere than at their variables, and another one makes
    what one of them reads: more of them may go along with rows than it seems."""
    before = {str(name) for each in members for name in sch.get_producers(each)}
    found = [access for name in members for access in accesses(sch.state.block(name))]
    plain = all(isinstance(i, Var) or int_value(i) is not None for a in found for i in a.indices)
    return not plain and not before <= set(members)


def _members_on_axes(sch: Schedule, last: str, groups: Sequence[Group]) -> tuple[str, ...]:
    """The stages of the largest chain that ends in `last` in a program all stages of which are
    brought on their axes; none where there is none, or where that changes nothing."""
    every: tuple[str, ...] = (last,)
    before = 0
    while len(every) > before:  # on their axes, stages may show that those before go along
        before, trial = len(every), sch.copy()
        for name in every:
            stage_on_axes(trial, name)
        known = followers(trial, last)
        near = {*known, *(str(name) for each in known for name in trial.get_producers(each))}
        every = tuple(str(name) for name in sch.get_blocks() if name in near)
    every, trial = tuple(name for name in every if name in known), sch.copy()
    if not _on_axes(trial, every):
        return ()
    rows, left = _largest(trial, last, groups), trial.get_blocks()
    found = () if rows is None else rows.order.members
    return tuple(name for name in every if name in found or (found and name not in left))


def _plan_with_results(
    sch: Schedule, last: str, groups: Sequence[Group], most: int, gpu: Gpu
) -> MovePlan | None:
    """The plan for a chain of which numbers of rows are results as well, such as a mean that is
    returned beside a norm; None where that has no more than `most` stages."""
    copied, ends = results_of_rows(sch, last)
    while copied or ends:
        trial = sch.copy()
        rows = _largest(trial, last, groups, (*results_apart(trial, copied), *ends))
        members = () if rows is None else rows.order.members
        kept = [name for name in copied if name in members]
        left = [name for name in ends if {*sch.get_producers(name)} <= {*members}]
        if (kept, left) == (copied, ends):
            more = len(members) > most
            return _plan_on_axes(sch, members, gpu, results=(kept, left)) if more else None
        copied, ends = kept, left
    return None


def _largest(
    sch: Schedule, last: str, groups: Sequence[Group], aside: Sequence[str] = ()
) -> InRows | None:
    """The rows of the largest chain that ends in `last`; None where there is none. Where sums have
    one value, and nothing tells rows, all is one."""
    blocks = [sch.state.block(name) for name in sch.get_blocks()]
    single = any(b.is_reduction and instances(b, IterKind.SPATIAL) == 1 for b in blocks)
    for one in (False, True)[: 1 + single]:
        rows = find_rows(sch, last, one=one, aside=aside)
        while rows is not None:
            members = _sharing(rows, groups)
            if members == rows.order.members:
                return rows
            rows = None if members is None else find_rows(sch, last, members, one=one, aside=aside)
    return None


def _plan_on_axes(
    sch: Schedule, members: tuple[str, ...], gpu: Gpu, merged: bool = True,
    results: tuple[Sequence[str], Sequence[str]] = ((), ()), one: bool = False,
) -> MovePlan | None:  # fmt: skip
    """The plan for a chain whose stages are brought on their axes first; some `results` of it are
    copied, and others stay aside. With `one` it is for stages that are one row then. None where
    that changes nothing, or no kernel comes of it."""
    copied, ends = results

    def prepare(sch: Schedule) -> tuple[tuple[str, ...], bool]:
        return (*results_apart(sch, copied), *ends), _on_axes(sch, members, merged)

    trial = sch.copy()
    aside, changed = prepare(trial)
    if not changed and not aside:
        return None
    left = tuple(name for name in members if name in trial.get_blocks())
    found = find_rows(trial, members[-1], left, one=one, aside=aside)
    if found is None or found.order.members != left or (one and prod(found.sizes) != 1):
        return None
    return _plan(trial, found, gpu, (sch, (*members, *ends), prepare), aside)


def _on_axes(sch: Schedule, members: Sequence[str], merged: bool = True) -> bool:
    """Give the stages of a chain one variable for what is one axis in memory, and none for axes of
    extent 1, as far as their sums stay where they are; tell whether that changes any.

    Numbers of rows that are computed of others are computed where they are used: alone, rows would
    be one axis of theirs that are several of the stages that have their elements. With `merged`
    off what is accessed in different places stays apart, in sums as in other stages: so those that
    scale channels of a group have the rows of sums over groups.
    """
    sums = [b for b in map(sch.state.block, members) if b.is_reduction]
    rows = min((instances(b, IterKind.SPATIAL) for b in sums), default=0)
    for name in members[:-1]:
        node = sch.state.block(name)
        if not node.is_reduction and instances(node) <= rows:
            with suppress(ScheduleError):  # something else reads them too
                sch.compute_inline(name)
    left = [name for name in members if name in sch.get_blocks()]
    return any([stage_on_axes(sch, name, merged) for name in left])


def _as_in_sums(
    sch: Schedule, last: str, members: Sequence[str], rows: Sequence[LoopRef]
) -> None:
    """Make the rows of the last stage one loop again where they are one variable of it, and sums of
    rows have it whole."""
    if len(rows) <= _outer(sch, members):
        return
    used = [variables(it.binding) for it in sch.state.block(last).iters]
    for parts in [[loop for loop in rows if sch.state.loop(loop).var in found] for found in used]:
        if len(parts) > 1:
            sch.fuse(*parts)


def _outer(sch: Schedule, members: Sequence[str]) -> int:
    """The variables that sums have for rows, and other stages first of all."""
    blocks = map(sch.state.block, members)
    return min(
        sum(it.kind is IterKind.SPATIAL for it in block.iters)
        for block in blocks
        if block.is_reduction
    )


def _sharing(rows: InRows, groups: Sequence[Group]) -> tuple[str, ...] | None:
    """The stages from the first on after which all are numbers of a row, elements of it, or sums of
    a row without other axes; None where nothing is left of it. What ends another sum is no part."""
    sch, first, sums = rows.sch, 0, 0
    ends: set[str | None] = set()
    for at, stage in enumerate(rows.stages):
        block = sch.state.block(stage.block)
        if block.is_reduction and (stage.width > 1 or is_product(sch, Group(stage.block))):
            first, sums = at + 1, 0
            ends |= {group.epilogue for group in groups if group.block == stage.block}
        else:
            sums += block.is_reduction
    kept = [stage for stage in rows.stages[first:] if stage.block not in ends]
    if not kept or kept[-1] is not rows.stages[-1]:
        return None
    back = any(stage.width > 1 for stage in kept[1:]) or sums > 1
    return tuple(stage.block for stage in kept) if sums and back and len(kept) > 1 else None


def _kept(sch: Schedule, rows: InRows) -> InRows | None:
    """The rows of a chain whose result stays in rows, for another stage to take it to its place,
    where neighbours there are of different rows."""
    if not rows.order.turned or rows.order.apart:
        return None
    found = find_rows(sch.copy(), rows.order.last, rows.order.members, kept=True)
    return found if found is not None and found.order.members == rows.order.members else None


def _turned_points(rows: InRows, terms: int, gpu: Gpu) -> list[dict[str, Any]]:
    """Points for results that are written through shared memory, with a sector's rows at once."""
    buffer = stores_of(rows.sch.state.block(rows.order.last))[0].buffer
    together = max(1, gpu.sector_bytes // dtype.itemsize(buffer.dtype))
    point = {"keep": None, "parts": 1, "sectors": False, "turned": True}
    by_warp = {**point, "by": "warp", "warps": together, "turns": 1}
    by_block = {**point, "by": "block", "warps": 8, "turns": together}
    return [by_warp, by_block] if terms <= MOST_KEPT * gpu.warp else [by_block]


def _in_turns(
    rows: InRows, point: dict[str, Any], terms: int, gpu: Gpu
) -> dict[str, Any] | None:
    """This point, or one by warps where a warp can keep a row, with rows one after the other, where
    something is read for all rows alike; None where they are too few for that."""
    if point["by"] == "block" and terms <= MOST_KEPT * gpu.warp:
        point = {**point, "by": "warp", "warps": 8}
    turns = _turns(rows, {"warp": point["warps"], "block": 1}.get(point["by"], gpu.warp), gpu)
    return None if turns == 1 else {**point, "turns": turns}


def _turns(rows: InRows, at_once: int, gpu: Gpu) -> int:
    """Rows that threads which have so many at once are to have one after the other, for all
    multiprocessors: as many as leave little of what is read for all rows alike, if there are, else
    so few that other blocks compute while one waits."""
    if not any(_is_common(rows, stage.block) for stage in rows.stages):
        return 1
    blocks = {n: ceil(prod(rows.sizes) / (at_once * n)) for n in TURNS}
    full = [n for n in blocks if n == 1 or blocks[n] >= FULL * gpu.multiprocessors]
    several = [n for n in full if n == 1 or at_once > 1 or blocks[n] >= gpu.multiprocessors * 2]
    enough = [n for n in full if at_once * n >= ALIKE] or several[-1:]
    return min(enough, key=lambda n: n * ceil(blocks[n] / gpu.multiprocessors))


def _parts(count: int, terms: int, ways: str, gpu: Gpu) -> int:
    """Blocks of threads that are to share a row in kernels of their own, where rows are too few for
    the device and long enough for that; 1 where they are not. Lanes have a row each."""
    at_once = gpu.warp if ways == "lanes" else 1
    most = min(2 * gpu.multiprocessors // ceil(max(1, count) / at_once), terms * at_once // PIECE)
    return max(n for n in BLOCKS if n <= max(1, most))


def _is_common(rows: InRows, name: str) -> bool:
    """Whether a stage reads what has elements for those of a row, the same for all rows."""
    node = rows.sch.state.block(name)
    own = {it.var for it in node.iters[_outer(rows.sch, rows.order.members) :]}
    found = (frozenset().union(*map(variables, load.indices)) for load in body_loads(node))
    return any(used and used <= own for used in found)


def _points(
    rows: InRows, sums: Sequence[Block], ways: str, terms: int, warps: Sequence[int], gpu: Gpu
) -> list[dict[str, Any]]:
    """Points that may be good for rows whose results lie as the rows do, preferred first."""
    each = gpu.warp if ways == "block" else 1
    item = dtype.itemsize(stores_of(rows.sch.state.block(rows.order.last))[0].buffer.dtype)
    shared = min((n for n in warps if n * each * KEPT >= terms), default=warps[-1])
    likely: list[dict[str, Any]] = [{"by": ways, "warps": shared, "keep": None}]
    if ways == "lanes" and shared * MOST_KEPT < terms:
        likely = [{**likely[0], "keep": "nothing"}]
    if ways == "block" and terms <= 2 * KEPT * gpu.warp:
        likely = [{"by": "warp", "warps": 8, "keep": None}] + likely * (terms > KEPT * gpu.warp)
    if ways == "block" and gpu.access_bytes % (terms * item) == 0:  # an access has a row
        likely = [{"by": "lanes", "warps": 1, "keep": None}, *likely]
    elif rows.sizes and 1 < terms < gpu.warp and (ways == "block" or few_columns(sums[0])):
        likely = [{"by": "thread", "warps": warps[2], "keep": None}, *likely]
    likely = [{**point, "turns": 1, "parts": 1} for point in likely]
    if in_turns := _in_turns(rows, likely[0], terms, gpu):
        likely = [in_turns, likely[0]]
    if (parts := _parts(prod(rows.sizes), terms, ways, gpu)) > 1:
        many = 16 if ways == "lanes" else 8  # for as many loads under way as memory wants
        likely = [{**likely[0], "warps": many, "parts": parts}, likely[0]]
    likely = [{**point, "sectors": False} for point in likely]
    if ways == "block" and any(library.gpu.begins_within(b) for b in sums):
        whole = {"by": "block", "warps": shared, "keep": None, "parts": 1, "sectors": True}
        turns = _turns(rows, 1, gpu)
        few = turns < ALIKE and terms > MOST_KEPT * gpu.warp  # for which long rows wait
        likely = [{**whole, "turns": 1 if few else turns}, *likely]
    return [{**point, "turned": False} for point in likely]


def _worth_making(
    points: list[dict[str, Any]], rows: InRows, base: Schedule, stages: Sequence[str],
    sums: Sequence[Block], terms: int, gpu: Gpu,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[float]]:  # fmt: skip
    """The points that formulas cannot tell apart, the others, and what the first ones take at
    least. They know nothing of rows whose results lie across."""
    if any(point["turned"] for point in points):
        return points, [], []
    count, bytes_moved = prod(rows.sizes), moved(base, stages)
    own = [moved(base, (block.name,)) for block in sums]  # of kernels ahead of one for the result
    drafts = []
    for point in points:
        way, parts = {name: point[name] for name in ("by", "warps", "turns")}, point["parts"]
        draft = partial(in_rows, gpu, rows=count, terms=terms, parts=parts, **way)
        if parts == 1:
            again = sum(own) if point["keep"] == "nothing" else 0
            drafts.append(draft(bytes_moved=bytes_moved, sums=len(sums), again=again))
            continue
        ahead = [work for each in own for work in draft(bytes_moved=each, loops=True)]
        drafts.append([*ahead, draft(bytes_moved=bytes_moved, loops=True)[0]])
    return quickest(points, drafts, gpu)


def _plan(
    sch: Schedule, rows: InRows, gpu: Gpu,
    written: tuple[Schedule, tuple[str, ...], Callable[[Schedule], object]] | None = None,
    aside: tuple[str, ...] = (),
) -> MovePlan:  # fmt: skip
    """The plan for a chain; `written` is the program as it was, with the stages of the chain in it
    and what makes `sch` of it, and stages `aside` store numbers of rows."""
    order, state = rows.order, rows.sch.state
    base, stages, prepare = written or (sch, order.members, None)
    sums = [b for b in map(state.block, order.members) if b.is_reduction]
    terms = max(instances(b, IterKind.REDUCE) for b in sums)
    warps = tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)
    ways = "lanes" if contiguous(sums[0]) is IterKind.SPATIAL else "block"
    on_axes = sch.copy()
    kept = _kept(on_axes, rows) if ways == "block" else None  # lanes have rows anyway
    likely = _points(rows, sums, ways, terms, warps, gpu)
    if aside:  # which the threads of rows store
        kept, likely = None, [p for p in likely if p["by"] != "thread" and p["parts"] == 1]
    across = [] if kept is None else _turned_points(kept, terms, gpu)
    worth = _worth_making([*across, *likely], rows, base.copy(), stages, sums, terms, gpu)
    likely, others, bounds = worth
    group = Group(order.last)

    def chain(
        sch: Schedule, group: Group, by: str, warps: int, turns: int, keep: str | None, parts: int,
        sectors: bool, turned: bool,
    ) -> None:
        if prepare is not None and not sch.follow(on_axes):  # others are scheduled already
            prepare(sch)
        last = order.members[-1]
        if turned and kept is not None:
            put_in_rows(sch, kept.order)
            library.gpu.turned_rows(
                sch, last, by=by, warps=warps, turns=turns, keep=keep, stages=order.members,
            )
            return
        alone = parts > 1  # the last stage has a kernel of its own, and its own loops
        placed = put_in_rows(sch, replace(order, joined=False) if alone else order)
        _as_in_sums(sch, last, order.members, placed)
        if alone:
            library.gpu.long_rows(
                sch, last, by=ways, blocks=parts, warps=warps, stages=order.members
            )
            return
        if by == "thread":
            library.gpu.short_rows(sch, last, warps=warps, stages=order.members)
            return
        library.gpu.rows(
            sch, last, by=by, warps=warps, turns=turns, keep=keep, sectors=sectors,
            shared=gpu.shared_most, stages=order.members, aside=aside,
        )

    options = {"by": WAYS, "warps": warps, "turns": TURNS, "keep": KEEP, "parts": BLOCKS}
    options["sectors"] = (False, True)
    options["turned"] = (False,) if kept is None else (False, True)
    return ChainPlan(
        "chain", group, gpu, base.copy(), chain, options,
        likely, "reassociated", stages, close=CLOSE,
        otherwise=[*others, {**(others or likely)[-1], "keep": "nothing"}], bounds=bounds,
    )  # fmt: skip
