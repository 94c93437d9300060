"""Requests worth trying that need values: layouts, annotations, intrinsics, algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from schedule.analysis.combiner import one_by_one
from schedule.analysis.products import products
from schedule.analysis.uses import read, written
from schedule.checks.annotations import KEYS
from schedule.rewrite.placement import child_of
from schedule.state import State, chain_below
from tensorir import (
    INTRINS,
    Block,
    Buffer,
    For,
    Load,
    Store,
    const,
    find_intrin,
    int_value,
    known_algorithms,
    variables,
    walk,
    walk_places,
)

Args = tuple[Any, ...]

TILES = (4, 8, 16)
"""Sizes of the blocks of a layout, and multiples that extents are padded to."""

VALUES: dict[str, tuple[Any, ...]] = {
    "schedule": ("static", "dynamic", "guided"),
    "unroll_limit": (16, 64),
}
"""What to try for the keys of `annotate`."""

ALIGNMENTS = ((16, 0), (32, 8))
"""Factor and offset of the distance between rows: whole vectors, and rows that do not all fall into
the same sets of a cache."""


def annotate(state: State) -> Iterator[Args]:
    loops, blocks = state.loop_names(), state.block_names()
    nodes: list[tuple[str, Block | For]] = [(n, state.loop(n)) for n in loops if n not in blocks]
    nodes += [(n, state.block(n)) for n in blocks if n not in loops]
    for name, node in nodes:
        for key, row in KEYS.items():
            if row.fits(node):
                yield from ((name, key, value) for value in VALUES.get(key, ()))


def transform_layout(state: State) -> Iterator[Args]:
    """The last two dimensions in the other order, and the last one in blocks."""
    for block, buffer in _intermediates(state):
        names = [f"i{n}" for n in range(buffer.ndim)]
        head, given = names[:-1], ", ".join(names)
        if len(names) > 1:
            swapped = [*names[:-2], names[-1], names[-2]]
            yield block, buffer.name, f"{given}: {', '.join(swapped)}"
        size = int_value(buffer.shape[-1]) if names else None
        for tile in TILES if size is not None else ():
            if size is not None and size > tile and size % tile == 0:
                parts = [f"{names[-1]} // {tile}", *head, f"{names[-1]} % {tile}"]
                yield block, buffer.name, f"{given}: {', '.join(parts)}"


def storage_align(state: State) -> Iterator[Args]:
    for block, buffer in _intermediates(state):
        if buffer.ndim > 1:
            for factor, offset in ALIGNMENTS:
                yield block, buffer.name, buffer.ndim - 2, factor, offset


def swizzle(state: State) -> Iterator[Args]:
    for block, buffer in _intermediates(state):
        for base in (0, 2):
            yield block, buffer.name, 3, base, 3


def transform_block_layout(state: State) -> Iterator[Args]:
    """The last two variables in the other order, all of them as one, and the last one in blocks."""
    for block in state.block_names():
        iters = state.block(block).iters
        names = [f"i{n}" for n in range(len(iters))]
        head, given = names[:-1], ", ".join(names)
        if len(names) > 1:
            yield block, f"{given}: {', '.join([*names[:-2], names[-1], names[-2]])}"
            sizes = [int_value(it.extent) for it in iters]
            if None not in sizes:
                joined = names[0]
                for name, size in zip(names[1:], sizes[1:]):
                    joined = f"({joined}) * {size} + {name}"
                yield block, f"{given}: {joined}"
        size = int_value(iters[-1].extent) if iters else None
        for tile in TILES if size is not None else ():
            if size is not None and size > tile and size % tile == 0:
                parts = [f"{names[-1]} // {tile}", *head, f"{names[-1]} % {tile}"]
                yield block, f"{given}: {', '.join(parts)}"


def _intermediates(state: State) -> Iterator[tuple[str, Buffer]]:
    """The blocks that write an intermediate, and what they write."""
    for name in state.block_names():
        for buffer in written(state.block(name)):
            if buffer not in state.func.params:
                yield name, buffer


def pad_einsum(state: State) -> Iterator[Args]:
    """All variables to one multiple, where that adds something."""
    for name in state.block_names():
        block = state.block(name)
        sizes = [int_value(it.extent) for it in block.iters]
        if block.init is None or len(read(block)) < 2:
            continue
        for tile in TILES:
            if any(size is None or size % tile for size in sizes):
                yield name, [tile] * len(sizes)


def pipeline(state: State) -> Iterator[Args]:
    """The last statement one iteration behind the others; all one after the other."""
    for loop in state.loop_names():
        count = len(child_of(state.loop(loop)))
        if count > 1:
            yield loop, [0] * (count - 1) + [1]
        if count > 2:
            yield loop, list(range(count))


def tensorize(state: State) -> Iterator[Args]:
    """The intrinsics that have the extents of a nest of loops."""
    for name in state.loop_names():
        loop = state.loop(name)
        sizes = [f.const_extent for f in (loop, *chain_below(loop))]
        for intrinsic in INTRINS:
            if _extents(intrinsic) == sizes:
                yield name, intrinsic


def use_algorithm(state: State) -> Iterator[Args]:
    """All algorithms, for each reduction."""
    for name in state.block_names():
        if state.block(name).is_reduction:
            for algorithm in known_algorithms():
                yield name, algorithm


def regroup(state: State) -> Iterator[Args]:
    """Each factor of a product by itself, and the others before or after it."""
    for name in state.block_names():
        node = state.block(name)
        value = node.body.value if isinstance(node.body, Store) else const(0)
        for place, product in enumerate(products(value, written(node))):
            for alone in range(len(product.factors)):
                rest = [n for n in range(len(product.factors)) if n != alone]
                yield name, [[alone], rest] if alone == 0 else [rest, [alone]], place


def reassociate(state: State) -> Iterator[Args]:
    for name in state.block_names():
        body = state.block(name).body
        if isinstance(body, Store) and one_by_one(body) is not None:
            yield (name,)


def cache_value(state: State) -> Iterator[Args]:
    """The operations in a value that do not move with all variables of their block."""
    for name in state.block_names():
        node = state.block(name)
        own = {it.var for it in node.iters}
        if isinstance(node.body, Store):
            for value, part in walk_places(node.body.value, lambda e: not isinstance(e, Load)):
                operation = value.operands and not isinstance(value, Load)
                if operation and not own <= variables(value):
                    yield name, list(part)


@lru_cache(maxsize=256)
def _extents(intrinsic: str) -> list[int | None]:
    """The extents of the loops of an intrinsic, outermost first."""
    found = find_intrin(intrinsic)
    loops = walk(found.func.body) if found is not None else ()
    return [s.const_extent for s in loops if isinstance(s, For)]
