"""How much memory a block touches below each of its loops, and what each cache has to fetch.

footprint  of a buffer below a loop: product over the dimensions of the reach of the index while
           the loops below run, in bytes, rows rounded up to cache lines
traffic    into a cache, of a buffer: if everything fits below some loop, the first loop outside
           that changes what is touched brings in its footprint, again for each of its runs;
           rows whose distance is a large power of two share few sets, and do not fit
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from autotune.features.nest import SYMBOLIC, Access, BlockNest
from autotune.streams import PAGE, WAY, WAYS, places_of_rows
from tensorir import Buffer, ForKind, PrimFunc, dtype, int_value

LINE = 64
"""Bytes of a cache line."""

FILL = 0.7
"""The share of a cache that a working set may take; the rest goes to what passes through."""

UNDIVIDED = (ForKind.VECTORIZED, ForKind.UNROLLED)


@dataclass(slots=True)
class Reach:
    """What a block touches of one buffer. Index l of a list means: below the loops 0..l-1.

    below         bytes
    rows          contiguous pieces they come in
    depends       by depth of a loop: whether the loop changes what is touched
    row_distance  bytes from a row to the next; 0 where rows are packed, and for vectors
    places        in a way of the first and of the second cache that rows begin at
    """

    buffer: Buffer
    below: list[int]
    rows: list[int]
    depends: list[bool]
    row_distance: int
    places: tuple[float, float]
    store: bool


def homes(func: PrimFunc, blocks: Sequence[BlockNest]) -> dict[Buffer, int]:
    """For each intermediate, how many of the outer loops lie outside of its allocation.

    Lowering allocates around the innermost loop that contains all uses, and outside of vectorized
    and unrolled loops; the iterations of the loops outside reuse the memory.
    """
    common: dict[Buffer, tuple[str, ...]] = {}
    inner = set(func.buffers)
    for block in blocks:
        kept = _divided(block)
        for buffer in {access.buffer for access in block.accesses} & inner:
            before = common.get(buffer)
            common[buffer] = kept if before is None else _prefix(before, kept)
    return {buffer: len(path) for buffer, path in common.items()}


def _divided(block: BlockNest) -> tuple[str, ...]:
    names: list[str] = []
    for loop in block.loops:
        if loop.kind in UNDIVIDED:
            break
        names.append(loop.name)
    return tuple(names)


def _prefix(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return a[:same]


def reaches(block: BlockNest, home: Mapping[Buffer, int]) -> list[Reach]:
    """What the block touches of each buffer, in the order of first use."""
    groups: dict[Buffer, list[Access]] = {}
    for access in block.accesses:
        groups.setdefault(access.buffer, []).append(access)
    depth = len(block.loops)
    return [_reach(buffer, uses, depth, home.get(buffer, 0)) for buffer, uses in groups.items()]


def _reach(buffer: Buffer, uses: list[Access], depth: int, home: int) -> Reach:
    item = dtype.itemsize(buffer.dtype)
    rows, below, depends = [1] * (depth + 1), [item] * (depth + 1), [False] * depth
    extent = 1
    for dim, size in enumerate(buffer.shape):
        known = int_value(size)
        extent = SYMBOLIC if known is None else max(known, 1)
        last = dim == len(buffer.shape) - 1
        hull, distinct = _suffixes([use.forms[dim] for use in uses], extent, depth, home, depends)
        for level in range(depth + 1):
            reach = min(hull[level], extent)
            if not last:
                rows[level] *= min(reach, distinct[level])
                continue
            width = min(reach * item, distinct[level] * LINE)
            if rows[level] > 1 and reach < extent:
                width = -(-width // LINE) * LINE
            below[level] = width * rows[level]
    # An intermediate that lives inside of a loop is allocated as large as what it holds there.
    apart = 0 if home or len(buffer.shape) < 2 else extent * item
    store = any(use.store for use in uses)
    return Reach(buffer, below, rows, depends, apart, places_between(buffer, apart), store)


def places_between(buffer: Buffer, apart: int) -> tuple[float, float]:
    """See `Reach.places`: any, where rows are packed."""
    if not apart:
        return inf, inf
    known = [int_value(size) for size in buffer.shape]
    whole = prod(SYMBOLIC if size is None else max(size, 1) for size in known)
    return places_of_rows(apart, whole * dtype.itemsize(buffer.dtype))


def _suffixes(
    forms: Iterable, extent: int, depth: int, home: int, depends: list[bool]
) -> tuple[list[int], list[int]]:
    """For one dimension, below each level: the reach of the index, and its number of values."""
    terms: dict[int, tuple[int, int]] = {}
    consts = set()
    unknown = False
    for form in forms:
        consts.add(form.const)
        unknown = unknown or form.unknown
        for at, (coef, steps) in form.terms.items():
            old = terms.get(at, (0, 0))
            terms[at] = (max(abs(coef), old[0]), max(steps, old[1]))
    start = max(consts) - min(consts) + 1
    hull, distinct = [start] * (depth + 1), [len(consts)] * (depth + 1)
    if unknown:
        return [extent] * (depth + 1), [extent] * (depth + 1)
    for level in range(depth - 1, -1, -1):
        coef, steps = terms.get(level, (0, 0)) if level >= home else (0, 0)
        if coef and steps:
            depends[level] = True
        hull[level] = hull[level + 1] + coef * steps
        distinct[level] = distinct[level + 1] * (steps + 1)
    return hull, distinct


def working_set(found: Sequence[Reach], level: int) -> int:
    """Bytes touched below the loops 0..level-1."""
    return sum([reach.below[level] for reach in found])


def rows_held(places: tuple[float, float], number: int, size: int) -> float:
    """How many rows that begin at so many places a cache holds, of level 1, 2 or 3 and so many
    bytes: any number the last one, whose sets are no part of an address."""
    return inf if number > 2 else WAYS * places[number - 1] * size / (PAGE, WAY)[number - 1]


def fit_level(found: Sequence[Reach], number: int, size: int, depth: int) -> int:
    """The outermost level whose working set fits in the cache of level `number`, of so many bytes;
    `depth` if none does."""
    held = [rows_held(reach.places, number, size) for reach in found]
    for level in range(depth):
        if working_set(found, level) > FILL * size:
            continue
        if all(reach.rows[level] <= most for reach, most in zip(found, held)):
            return level
    return depth


def traffic(block: BlockNest, found: Sequence[Reach], level: int) -> int:
    """Bytes fetched (twice for what is stored) if a cache holds the working set of `level`.

    From one iteration to the next of the first loop outside, what overlaps is still there; loops
    further out find nothing of what they had.
    """
    total = 0
    for reach in found:
        moved = next((d for d in range(level - 1, -1, -1) if reach.depends[d]), None)
        if moved is None:
            fetched = reach.below[level]
        else:
            fetched = reach.below[moved] * prod([loop.extent for loop in block.loops[:moved]])
        total += fetched * (2 if reach.store else 1)
    return total


def held_bytes(block: BlockNest, found: Sequence[Reach], home: Mapping[Buffer, int]) -> int:
    """Bytes of the intermediates that the block stores to, each as large as its allocation."""
    stored = [reach for reach in found if reach.store and reach.buffer in home]
    return sum([r.below[min(home[r.buffer], len(block.loops))] for r in stored])


def spatial_product(block: BlockNest, depths: Iterable[int]) -> int:
    """The product of the extents of those loops that do not drive a reduction."""
    return prod([block.loops[d].extent for d in depths if d not in block.reduce])
