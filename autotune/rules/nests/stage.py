"""A stage: one block of a program, and what is open in its own loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from autotune.choices import TILE_STEPS, Categorical, Choice, ImperfectTile, divisors
from autotune.rules.effort import one_thread
from autotune.rules.group import attempt, in_scan, lane_of, operations, size, stores_of
from autotune.rules.nest import loops_by_variable
from autotune.rules.nests.places import AT, SLIDE
from autotune.rules.plan import threads
from autotune.rules.stores import STORES, may_stream
from schedule import Schedule, library
from tensorir import Block, Cpu, IterKind, body_loads, int_value

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
"""Rows of a register tile, of each axis that is not in the lanes."""

VECTORS = (1, 2, 3, 4, 6, 8)
"""Vectors of a register tile, along the axis in the lanes."""

WHOLE_ROW = 16
"""Vectors up to which all of an axis may be in the lanes."""

OVERHANG = 1.0
"""How far tiles may reach beyond an axis, as a share of it: the last ones are made smaller."""

MOST_THREADED = 3
"""Outer loops that threads share as one."""

LEVELS = ("s0 s1 r0 r1 r2 s2", "s0 r0 s1 r1 r2 s2", "s0 r0 r1 s1 r2 s2", "s0 s1 s2 r0 r1 r2")
"""Orders of the levels of tiles: s of the axes of the result, r of the terms of a sum."""

PLAIN_LEVELS = "s0 s1 s2"


@dataclass(frozen=True)
class Axis:
    """A loop of a block: the variable that is bound to it, and its extent."""

    var: str
    extent: int
    known: bool = True


@dataclass(frozen=True)
class Stage:
    """A block as a nest sees it.

    spatial  axes of the result, `reduce` those of the terms, in the order of the text
    lane     the axis along which the result is contiguous and that may be a vector; "" for none
    lanes    elements of the result in a vector
    threads  how many of the outer loops threads may share
    reorders whether another order of the terms rounds otherwise
    work     operations on values in one instance
    choices  all that is open; see `Decision` for their meaning
    """

    block: str
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    lane: str
    lanes: int
    threads: int
    reorders: bool
    work: int
    large: bool
    choices: tuple[Choice, ...] = ()

    def key(self, what: str) -> str:
        return f"{self.block}.{what}"

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.spatial, *self.reduce)


def find_stage(sch: Schedule, name: str, cpu: Cpu, places: Sequence[str]) -> Stage:
    """The stage of a block that has its place at the root of `sch`, computed at one of `places`."""
    block = sch.state.block(name)
    own = library.own_loops(sch, name)
    loops = {var: loop for var, loop in loops_by_variable(sch, name).items() if loop in own}
    movable = not in_scan(sch, block)  # its steps stay in their order
    rows: dict[IterKind, list[Axis]] = {IterKind.SPATIAL: [], IterKind.REDUCE: []}
    for it in block.iters:
        if it.kind in rows and it.var.name in loops and int_value(it.extent) != 1 and movable:
            known = int_value(it.extent) is not None
            rows[it.kind].append(Axis(it.var.name, size(it.extent), known))
    spatial, reduce = tuple(rows[IterKind.SPATIAL]), tuple(rows[IterKind.REDUCE])
    whole = len(own) == len(sch.get_loops(name))
    stage = Stage(
        block=name,
        spatial=spatial,
        reduce=reduce,
        lane=_lane(sch, block, spatial, loops),
        lanes=_lanes(block, cpu),
        threads=_threads(sch, spatial, loops) if whole else 0,
        reorders=_reorders(sch, name, reduce, loops),
        work=max(1, operations(block)),
        large=threads(cpu, one_thread([block], cpu), sch, block)[1] == "parallel",
    )
    return replace(stage, choices=tuple(_choices(sch, stage, places, loops)))


def _lane(sch: Schedule, block: Block, spatial: Sequence[Axis], loops: dict[str, str]) -> str:
    """The axis along which what is stored is contiguous, if its iterations may be lanes."""
    lane = lane_of(block)
    for axis in spatial:
        if lane is not None and axis.var == lane.name:
            loop = loops[axis.var]
            if not axis.known:
                sch = sch.copy()
                _, loop = sch.split(loop, [None, 2])
            return axis.var if attempt({}, "lanes", sch.copy().vectorize, loop) else ""
    return ""


def _threads(sch: Schedule, spatial: Sequence[Axis], loops: dict[str, str]) -> int:
    """How many outer loops may be one that threads share; of symbolic ones only the first."""
    for count, axis in enumerate(spatial[:MOST_THREADED]):
        alone = count and not axis.known
        if alone or not attempt({}, "threads", sch.copy().parallel, loops[axis.var]):
            return count
    return min(len(spatial), MOST_THREADED)


def _reorders(sch: Schedule, name: str, reduce: Sequence[Axis], loops: dict[str, str]) -> bool:
    """Whether the sums are others if the first of their loops runs last."""
    if len(reduce) < 2:
        return False
    trial, names = sch.copy(), [loops[axis.var] for axis in reversed(reduce)]
    return attempt({}, "terms", trial.reorder, *names) and trial.numerics != sch.numerics


def _lanes(block: Block, cpu: Cpu) -> int:
    """Elements of a vector: of sums, or of the widest that an instance reads or writes."""
    stores = [store.buffer.dtype for store in stores_of(block)]
    if block.is_reduction or not stores:
        return min(map(cpu.lanes, stores), default=cpu.lanes())
    return cpu.elements(*stores, *(load.buffer.dtype for load in body_loads(block)))


def _choices(
    sch: Schedule, stage: Stage, places: Sequence[str], loops: dict[str, str]
) -> list[Choice]:
    key = stage.key
    found: list[Choice] = []
    if len(places) > 1:
        weights = tuple(1.0 if place.startswith((AT, SLIDE)) else 4.0 for place in places)
        found.append(Categorical(key("where"), tuple(places), weights))
    found += [_tile(stage, axis) for axis in stage.spatial]
    found += [_terms(stage, axis) for axis in stage.reduce]
    for level in ("outer", "inner") if len(stage.spatial) > 1 else ():
        found.append(Categorical(key(level), orders(stage.spatial)))
    if stage.reduce:
        found.append(Categorical(key("levels"), LEVELS))
        if stores_of(sch.state.block(stage.block)):
            found.append(Categorical(key("sums"), ("registers", "memory")))
        if len(stage.reduce) > 1:
            found.append(Categorical(key("terms"), orders(stage.reduce)))
    if stage.lane:
        found.append(Categorical(key("lanes"), ("vector", "scalar"), (5.0, 1.0)))
    if stage.axes:
        unrolled = ("rows", "none", "rows and terms") if stage.reduce else ("rows", "none")
        found.append(Categorical(key("unroll"), unrolled))
    if stage.threads:
        found.append(Categorical(key("threads"), tuple(range(stage.threads + 1))))
    if stage.lane and may_stream(sch, stage.block):
        found.append(Categorical(key("stores"), STORES))
    return found


def orders(axes: Sequence[Axis]) -> tuple[tuple[int, ...], ...]:
    """Orders of loops by their places in the text, that of the text first: all of up to three, else
    each one first or last."""
    places = tuple(range(len(axes)))
    if len(places) <= 3:
        return tuple(permutations(places))
    found = [places, places[::-1]]
    for place in places:
        rest = tuple(other for other in places if other != place)
        found += [(place, *rest), (*rest, place)]
    return tuple(dict.fromkeys(found))


def _tile(stage: Stage, axis: Axis) -> ImperfectTile:
    """(middle tiles, inner tile) of an axis of the result."""
    if axis.var != stage.lane:
        inner = tuple(rows for rows in ROWS if rows <= axis.extent)
    else:
        widths = [stage.lanes * n for n in VECTORS if stage.lanes * n < axis.extent + stage.lanes]
        if axis.known and axis.extent <= WHOLE_ROW * stage.lanes:
            widths.append(axis.extent)
        inner = tuple(widths)
    return ImperfectTile(
        stage.key(f"tile[{axis.var}]"), axis.extent, 3, inner, _steps(axis), OVERHANG
    )


def _terms(stage: Stage, axis: Axis) -> ImperfectTile:
    """(middle tiles, inner tile) of an axis of the terms."""
    return ImperfectTile(stage.key(f"tile[{axis.var}]"), axis.extent, 3, None, _steps(axis))


def _steps(axis: Axis) -> tuple[int, ...]:
    exact = divisors(axis.extent) if axis.known else ()
    return tuple(sorted({*(s for s in TILE_STEPS if s <= axis.extent), *exact}))
