"""The plans with partial sums that are worth considering, best estimate first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product
from math import gcd, prod

from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.estimate.facts import SYMBOLIC
from autotune.estimate.traffic import with_requests
from autotune.plans import grouped, has_plans, plans
from schedule import library
from tensorir import dtype

WIDTHS = (1, 2, 4)
"""Vectors of lanes that are added up in the end."""

ROWS = (1, 2, 3, 4, 5, 6, 8)
"""Rows of a tile."""

TOGETHER = 4
"""Rows of a tile of which no other axis is one: more streams than that disturb each other."""

FEWEST = 4
"""Terms, and times these, that fill lanes by themselves: they are added up without a rest."""

SHORTEST = 2
"""Terms for each lane, below which most of them have none or one."""

WRITTEN = 4
"""Steps of a sum that are written out."""

VECTORS = 4
"""Vectors of columns whose sums are in registers for a few terms."""

DEPTHS = (8, 4, 16)
"""How many these terms are."""

LONG = 1024
"""Terms of a part, at least."""

FEW = 16
"""Register tiles of results for each thread, up to which parts of sums are looked at."""


Timed = tuple[float, "library.MovedPlan"]
"""An estimate in cycles and a plan."""


def partial_plans(c: library.Contraction, cpu: Cpu, constants: Collection[str] = ()) -> list[Timed]:
    """Estimates in cycles and plans, best first; none for contractions that none here is for."""
    if not c.reduced:  # sums of one term
        return []
    found = [*_lanes(c, cpu), *_short(c, cpu)]
    for operand, axis in _turned(c, cpu):
        for cycles, plan in _lanes(library.with_panel(c, operand, axis), cpu):
            option = (operand, axis, plan.nest.threads)
            copied = library.panel.cycles(c, option, cpu, constants)
            moves = ((library.panel, option), *plan.moves)
            found.append((copied + cycles, replace(plan, moves=moves)))
    shares = _shares(c, cpu)
    for part in _parts(c, cpu):
        after = library.with_partial(c, part)
        left = list(_lanes(after, cpu)) if part.count in shares else []
        left = [(cycles, plan) for cycles, plan in left if plan.nest.threads]
        if _few_tiles(c, cpu):
            nests = plans(after, cpu, constants)
            left += [(cycles, library.MovedPlan((), nest)) for cycles, nest in nests]
        found += _in_parts(c, part, left, cpu)
    for part, after in _columns(c, cpu):
        kept = [library.MovedPlan((), nest) for nest in grouped(after, _kept(after, cpu))]
        times = Estimate(after, cpu).cycles([plan.nest for plan in kept])
        found += _in_parts(c, part, zip(map(float, times), kept), cpu)
    return sorted(found, key=lambda item: item[0])


def _in_parts(
    c: library.Contraction, part: library.Partial, left: Iterable[Timed], cpu: Cpu
) -> Iterator[Timed]:
    """Estimates and plans of parts, from those of what they leave."""
    for cycles, plan in left:
        option = (part.axis, part.count, part.step, plan.nest.lanes)
        rest = library.parts.cycles(c, option, cpu, ())
        yield cycles + rest, replace(plan, moves=((library.parts, option), *plan.moves))


def lanes_of(c: library.Contraction, cpu: Cpu) -> int:
    """How many elements a vector has of the widest type that a contraction reads or sums."""
    return cpu.elements(*(access.dtype for access in (*c.operands, c.sums)))


def lane_axis(c: library.Contraction, cpu: Cpu) -> int | None:
    """The axis that is summed over along whose terms all operands that move are read in vectors,
    the nearest, if it fills the lanes of these, and sums have some terms for each."""
    apart = all(o.strides[n] not in (1, None) for o in c.operands for n in c.spatial)
    if any(o.pad for o in c.operands) or not apart and any(map(c.is_window, range(len(c.axes)))):
        return None  # neighbours read the same elements
    lanes = lanes_of(c, cpu)
    steps = {n: [o.strides[n] for o in c.operands if o.strides[n] != 0] for n in c.reduced}
    near = {n: sum(each or 0 for each in steps[n]) for n in c.reduced if steps[n]}
    every = range(len(c.operands))
    fit = [n for n in near if all(c.is_read_in_vectors(m, n) for m in every)]
    return min((n for n in fit if _is_long(c, n, lanes)), key=near.__getitem__, default=None)


def _is_long(c: library.Contraction, axis: int, lanes: int) -> bool:
    """Whether so many lanes along the terms of an axis have some terms each, those of all axes."""
    most, others = c.axes[axis].most, [c.axes[n].most for n in c.reduced if n != axis]
    every = None if most is None or None in others else most * prod(n or 1 for n in others)
    return (most is None or most >= lanes) and (every is None or every >= SHORTEST * lanes)


def _lanes(c: library.Contraction, cpu: Cpu) -> Iterator[Timed]:
    """Plans with lanes along the terms of the sums, with their estimates."""
    axis, lanes = lane_axis(c, cpu), lanes_of(c, cpu)
    if axis is None or _is_dear(c, cpu):
        return
    for vectors in WIDTHS:
        most = c.axes[axis].most
        if most is not None and not _is_long(c, axis, vectors * lanes):
            continue
        move = (library.lanes, (axis, vectors * lanes))
        after = library.with_partial(c, library.Partial(axis, vectors * lanes, "lanes"))
        nests = grouped(after, with_requests(after, cpu, _nests(after, cpu, lanes)))
        for cycles, nest in zip(Estimate(after, cpu).cycles(nests), nests):
            yield float(cycles), library.MovedPlan((move,), nest)


def _short(c: library.Contraction, cpu: Cpu) -> Iterator[Timed]:
    """Plans with the terms of a short axis in lanes, all of them, where those of the next result
    follow in memory and other axes are summed over too: groups of channels, windows side by side.
    As much of such a row as registers hold is added up at a time."""
    lanes = lanes_of(c, cpu)
    for axis in c.reduced if len(c.reduced) > 1 else ():
        count = c.axes[axis].extent or 1
        whole = all(o.strides[axis] in (0, 1) and not o.pad for o in c.operands)
        if not whole or count % FEWEST or not FEWEST <= count < lanes:
            continue
        after = library.with_partial(c, library.Partial(axis, count, "lanes"))
        *rows, lane = after.spatial
        moving = [o.strides for o in after.operands if o.strides[lane] == 1]
        for near in (n for n in rows if moving and all(steps[n] == count for steps in moving)):
            sizes = {near: min(after.axes[near].extent or 1, cpu.registers // 2), lane: count}
            tile = tuple(sizes.get(n, 1) for n in after.spatial)
            nest = library.NestPlan(lane, count, tile, tile, after.reduced, after.spatial)
            (cycles,) = Estimate(after, cpu).cycles([nest])
            yield float(cycles), library.MovedPlan(((library.lanes, (axis, count)),), nest)


def _turned(c: library.Contraction, cpu: Cpu) -> Iterator[tuple[int, int]]:
    """The one operand whose terms are apart, to be turned ahead, with their axis: for results of
    which no axis fills vectors."""
    lanes = lanes_of(c, cpu)
    if any((c.axes[n].extent or lanes) >= lanes for n in c.spatial if c.result.strides[n] == 1):
        return
    for axis in c.reduced:
        apart = [n for n, o in enumerate(c.operands) if o.strides[axis] not in (0, 1)]
        if len(apart) == 1 and c.axes[axis].extent is not None and c.can_pack(apart[0], axis):
            yield apart[0], axis


def _is_dear(c: library.Contraction, cpu: Cpu) -> bool:
    """Whether adding lanes up takes longer than turning the operands, so that lanes along the
    results, which have to be neighbours there, need no partial sums. Windows cannot be turned."""
    results = prod(axis.extent or SYMBOLIC for axis in c.axes if not axis.reduce)
    read = sum(prod(size or SYMBOLIC for size in o.shape) for o in c.operands)
    dear = results * cpu.costs.add > read * cpu.costs.copy_turned
    return dear and not any(map(c.is_window, c.reduced)) and has_plans(c, cpu)


def _nests(c: library.Contraction, cpu: Cpu, lanes: int) -> Iterator[library.NestPlan]:
    """Nests of a contraction whose last spatial axis are lanes that are added up."""
    *rows, lane = c.spatial
    extents = Estimate(c, cpu).extents
    symbolic = any(axis.extent is None for axis in c.axes)
    shared = (True,) if symbolic or cpu.threads == 1 else (False, True)
    # The largest operand is read once, or what all move along, which share nothing there, is outer.
    still = {n: any(o.strides[n] == 0 for o in c.operands) for n in rows}
    large = sorted(rows, key=lambda n: -extents[n])
    orders = dict.fromkeys((*each, lane) for each in (large, sorted(large, key=still.__getitem__)))
    whole = tuple(extents[n] for n in c.spatial)
    flat = flat_of(c)
    for tile in _tiles(c, rows, -(-extents[lane] // lanes), extents, cpu):
        sizes = (*(tile.get(n, 1) for n in rows), extents[lane])
        for threads, order in product(shared, orders):
            yield library.NestPlan(
                lane, lanes, sizes, sizes if threads else whole, c.reduced, order,
                flat=flat, threads=threads,
            )  # fmt: skip


def flat_of(c: library.Contraction) -> str:
    """How the terms of lanes are written: out, where they are few."""
    terms = prod(c.axes[n].extent or WRITTEN + 1 for n in c.reduced)
    return "rows" if terms <= WRITTEN else ""


def _tiles(
    c: library.Contraction, rows: list[int], vectors: int, extents: tuple[int, ...], cpu: Cpu
) -> Iterator[dict[int, int]]:
    """Rows of register tiles: of two axes along which operands stand still, in one vector of sums
    each; else of one, or of the last axis."""
    shared = [n for n in rows if any(o.strides[n] == 0 for o in c.operands)]

    def sizes(n: int) -> list[int]:
        *outer, inner = c.axes[n].digits  # partial sums have a loop each: a tile stays in the last
        one = not outer and inner.whole
        return [s for s in ROWS if s <= extents[n] and (one or (inner.extent or 1) % s == 0)]

    if len(shared) > 1:
        for n, m in combinations(shared, 2) if vectors == 1 else ():
            fit = [
                (high, wide)
                for high, wide in product(sizes(n), sizes(m))
                if min(high, wide) > 1 and high * wide + min(high, wide) + 1 <= cpu.registers
            ]
            most = max((high * wide for high, wide in fit), default=0)
            yield from ({n: high, m: wide} for high, wide in fit if 2 * high * wide >= most)
        return
    yield {}
    for n in dict.fromkeys([*shared, *rows[-1:]]):
        yield from ({n: size} for size in sizes(n) if 1 < size <= TOGETHER)


def _parts(c: library.Contraction, cpu: Cpu) -> Iterator[library.Partial]:
    """Cuts of the longest sum: for threads that would rest, and to keep what a part reads near."""
    extents = Estimate(c, cpu).extents
    known = [n for n in c.reduced if c.axes[n].extent is not None]
    if not known or any(o.pad for o in c.operands) or any(map(c.is_window, c.reduced)):
        return
    axis, lanes = max(known, key=lambda n: extents[n]), lanes_of(c, cpu)
    counts = _shares(c, cpu)
    if _few_tiles(c, cpu):
        width = min(4 * lanes, extents[c.spatial[-1]]) if c.spatial else 1
        near = max(LONG, cpu.kept_bytes(2) // (dtype.itemsize(c.sums.dtype) * width))
        counts.add(cpu.threads * max(1, -(-extents[axis] // (near * cpu.threads))))
    for count in sorted(counts):
        if count > 1 and extents[axis] // count >= LONG:
            yield library.Partial(axis, count, "parts", 4 * lanes)


def _columns(
    c: library.Contraction, cpu: Cpu
) -> Iterator[tuple[library.Partial, library.Contraction]]:
    """Parts of sums whose terms lie across the lanes, for operands of which one is read once: each
    thread then reads whole rows of it, in their order."""
    if cpu.threads < 2 or any(o.pad for o in c.operands) or any(map(c.is_window, c.reduced)):
        return
    along = [n for n in c.spatial if c.result.strides[n] == c.sums.strides[n] == 1]
    known = all(axis.extent is not None for axis in c.axes)
    once = [o for n, o in enumerate(c.operands) if not c.is_used_again(n)]
    if not known or not along or not all(o.strides[along[0]] == 1 for o in once) or not once:
        return
    wide = (c.axes[along[0]].extent or 0) >= VECTORS * lanes_of(c, cpu)
    axis = c.reduced[0]
    if any(o.strides[axis] != 0 and o not in once for o in c.operands):
        return  # a factor of the terms: a product with a vector
    if wide and (c.axes[axis].extent or 0) >= DEPTHS[-1] * cpu.threads:
        part = library.Partial(axis, cpu.threads, "parts")
        yield part, library.with_partial(c, part)


def _kept(c: library.Contraction, cpu: Cpu) -> Iterator[library.NestPlan]:
    """Nests that go over the sums of a task again and again, which fill half of the first cache."""
    lanes = lanes_of(c, cpu)
    (lane,) = (n for n in c.spatial if c.result.strides[n] == 1)
    width = VECTORS * lanes
    most = cpu.kept_bytes(1) // dtype.itemsize(c.sums.dtype)
    wide = min(max(most // width, 1) * width, -(-(c.axes[lane].extent or 0) // width) * width)
    tile = tuple(width if n == lane else 1 for n in c.spatial)
    task = tuple(wide if n == lane else 1 for n in c.spatial)
    for depth in DEPTHS:
        yield library.NestPlan(lane, lanes, tile, task, c.reduced, c.spatial, depth=depth)


def _shares(c: library.Contraction, cpu: Cpu) -> set[int]:
    """How many parts of each result threads share evenly; none where they share whole results."""
    results = prod(axis.extent or 0 for axis in c.axes if not axis.reduce)
    return {cpu.threads // gcd(results, cpu.threads)} - {1}


def _few_tiles(c: library.Contraction, cpu: Cpu) -> bool:
    """Whether there are few register tiles of results."""
    if not c.spatial:
        return False
    extents, lanes = Estimate(c, cpu).extents, lanes_of(c, cpu)
    *rows, lane = (extents[n] for n in c.spatial)
    return -(-prod(rows) // 6) * -(-lane // (4 * lanes)) < FEW * cpu.threads
