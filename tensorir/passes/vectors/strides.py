"""Elements at small strides: where they are, and vectors that are made of several such rows."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Const, Expr, Load, Select, int_value
from tensorir.passes.vectors.masked_tails import lanes_between
from tensorir.stmt import Store
from tensorir.vector_expr import Ramp, Shuffle
from tensorir.visit import loads

LEAST = 4
"""Vectors of fewer lanes are gathered as fast."""

MOST_STRIDE = 8
"""Elements further apart than this are gathered: it would take that many vectors to hold them."""


def step_of(indices: Sequence[Expr]) -> int:
    """How far apart neighbours of a vector of elements lie, where that is near; else 0."""
    index = indices[0]
    if len(indices) != 1 or not isinstance(index, Ramp) or index.lanes < LEAST or index.lanes % 2:
        return 0
    step = int_value(index.stride) or 0
    return step if 2 <= step <= min(MOST_STRIDE, index.lanes) else 0


def place_of(indices: Sequence[Expr]) -> tuple[Expr, int]:
    """Where a vector begins: a variable part, and a constant."""
    index = indices[0]
    assert isinstance(index, Ramp)
    base = Analyzer().simplify(index.base)
    if isinstance(base, BinOp) and base.op in ("+", "-"):
        constant = int_value(base.b)
        if constant is not None:
            return base.a, constant if base.op == "+" else -constant
    constant = int_value(base)
    return (base, 0) if constant is None else (Const(0, base.dtype), constant)


def filling(run: Sequence[Store]) -> int:
    """How many stores from the first one on fill a piece of memory together, each every so many
    elements of it, and read nothing of it; 0 for none."""
    first, step = run[0], step_of(run[0].indices)
    mine, lanes = run[:step], dt.lanes(run[0].indices[0].dtype)
    alike = all(
        store.buffer is first.buffer
        and step_of(store.indices) == step
        and dt.lanes(store.indices[0].dtype) == lanes
        and not any(load.buffer is first.buffer for load in loads(store.value))
        for store in mine
    )
    if len(mine) < max(2, step) or not alike or dt.is_bool(first.buffer.dtype):
        return 0
    places = [place_of(store.indices) for store in mine]
    base, low = min(places, key=lambda place: place[1])
    return step if set(places) == {(base, low + n) for n in range(step)} else 0


def interleaved(rows: Sequence[Sequence[Expr]]) -> list[Expr]:
    """The vectors of a sequence of which each row, of as many vectors, has every so many elements:
    rows that are half of all apart are interleaved until their number is odd."""
    half, lanes = len(rows) // 2, dt.lanes(rows[0][0].dtype)
    if len(rows) == 1:
        return list(rows[0])
    if len(rows) % 2 == 0:
        return interleaved(
            [
                [
                    Shuffle(a, b, tuple(n // 2 + start + n % 2 * lanes for n in range(lanes)))
                    for a, b in zip(rows[row], rows[row + half])
                    for start in (0, lanes // 2)
                ]
                for row in range(half)
            ]
        )
    found: list[Expr] = []
    for vectors in zip(*rows):
        for start in range(0, len(rows) * lanes, lanes):
            made, places = vectors[0], [divmod(start + n, len(rows)) for n in range(lanes)]
            for row, vector in enumerate(vectors[1:], 1):
                old = [place if row == 1 else n for n, (place, _) in enumerate(places)]
                chosen = [lanes + p if r == row else o for o, (p, r) in zip(old, places)]
                made = Shuffle(made, vector, tuple(chosen))
            found.append(made)
    return found


def some_lanes(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours or of every other element, else `none`."""
    count, index = dt.lanes(load.dtype), load.indices[0]
    assert isinstance(index, Ramp)
    if int_value(index.stride) == 1:
        return _between(load, low, high, none)
    parts = [
        _between(neighbours(load, start), low * 2 - start, high * 2 - 1 - start, none)
        for start in (0, count)
    ]
    return Shuffle(parts[0], parts[1], tuple(range(0, 2 * count, 2)))


def _between(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours, else `none`."""
    count, first, end = dt.lanes(load.dtype), int_value(low), int_value(high)
    if first is None or end is None:
        return Select(lanes_between(low, high, count), load, none)
    first, end = max(0, first), min(count, end)
    if first >= end:
        return none
    whole = (first, end) == (0, count)
    return load if whole else Select(lanes_between(first, end, count), load, none)


def neighbours(load: Load, offset: int) -> Load:
    """The elements side by side from so many behind where a strided load begins."""
    index = load.indices[0]
    assert isinstance(index, Ramp)
    one = Const(1, index.base.dtype)
    return Load(load.buffer, (Ramp(index.base + offset, one, index.lanes),))
