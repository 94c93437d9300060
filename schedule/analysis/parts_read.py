"""Which elements of an intermediate are read: in each dimension every so many, from one on."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from schedule.analysis.uses import accesses, is_output, readers
from schedule.state import State
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Expr,
    Var,
    const,
    int_value,
    slope,
    substitute,
    variables,
)


class Part(NamedTuple):
    """The elements first, first + step, and so on, `number` of them."""

    first: int
    step: int
    number: int

    def place(self, index: Expr, analyzer: Analyzer) -> Expr:
        """Which of them is the one at an index."""
        if self.step == 1:
            return analyzer.simplify(index - self.first) if self.first else index
        steps, base = _affine(index, analyzer) or ({}, 0)
        place: Expr = const((base - self.first) // self.step)
        for var, by in steps.items():
            place = place + var * (by // self.step)
        return analyzer.simplify(place)


def parts_read(state: State, buffer: Buffer) -> tuple[Part, ...] | None:
    """For each dimension of a buffer a part with all elements that blocks but its writers read;
    None where a size is no number, or nothing is read."""
    sizes = [int_value(size) for size in buffer.shape]
    found: list[tuple[tuple[Expr, ...], Analyzer]] = []
    for node in map(state.block, readers(state, buffer)):
        extents: dict[Expr, Expr] = {it.var: it.extent for it in node.iters}
        read = [access.indices for access in accesses(node) if access.buffer is buffer]
        if any(all([extents.get(i) is n for i, n in zip(at, buffer.shape)]) for at in read):
            return tuple(Part(0, 1, size or 0) for size in sizes)  # nearly always
        known = within(state, node)
        found += [(at, known) for at in read]
    if not found or None in sizes:
        return None
    return tuple(
        _part([(indices[n], known) for indices, known in found], size or 0)
        for n, size in enumerate(sizes)
    )


def share_read(state: State, buffer: Buffer) -> float:
    """The share of the elements of a buffer that are in the parts that are read; callers read all
    of a result."""
    every = prod(int_value(size) or 0 for size in buffer.shape)
    parts = None if is_output(state, buffer) or not every else parts_read(state, buffer)
    return 1.0 if parts is None else prod(part.number for part in parts) / every


def within(state: State, node: Block) -> Analyzer:
    """What is known inside of a block of its variables."""
    analyzer = state.analyzer()
    for it in node.iters:
        analyzer.bind(it.var, it.extent)
    return analyzer


def _part(places: Sequence[tuple[Expr, Analyzer]], size: int) -> Part:
    """A part of a dimension of `size` elements, with all indices that are in it: loads elsewhere
    are of branches that are not taken."""
    low, high, step = size, -1, 0
    base: int | None = None
    for index, analyzer in places:
        first, last = analyzer.bounds(analyzer.simplify(index))
        if first is None or last is None:
            return Part(0, 1, size)
        low, high = min(low, first), max(high, last)
        affine = _affine(index, analyzer)
        if affine is None:
            step = 1
            continue
        base = affine[1] if base is None else base
        step = gcd(step, *affine[0].values(), affine[1] - base)
    step, low, high = step or 1, max(low, 0), min(high, size - 1)
    low += ((base or 0) - low) % step
    return Part(low, step, (high - low) // step + 1) if low <= high else Part(0, 1, size)


def _affine(index: Expr, analyzer: Analyzer) -> tuple[dict[Var, int], int] | None:
    """The steps of an index with its variables, and where it begins; None where it has no such."""
    used = variables(index)
    steps = {var: slope(index, var, analyzer) for var in used}
    origin = substitute(index, {var: const(0) for var in used})
    base = int_value(analyzer.simplify(origin))
    found = {var: by for var, by in steps.items() if by is not None}
    return None if base is None or len(found) < len(steps) else (found, base)
