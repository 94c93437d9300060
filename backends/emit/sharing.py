"""Sharing: which values deserve a name, so that the emitted text stays short.

Expressions are interned, so a value that is used twice is one node with two users. Printed as a
tree it would be written twice, and chains of such values would grow exponentially.

Where several accesses lie at fixed distances from one address, C gets a pointer to it: gcc then
takes up to a fifth less time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from tensorir import (
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Store,
    Var,
    children,
    int_value,
    loads,
    walk_exprs,
)
from tensorir import dtype as dt

INDEX_SIZE = 8
"""Integer expressions with fewer nodes than this read better where they stand."""

PLACES = 3
"""Elements at fixed distances from one place that are worth a name for its address."""

REGISTERS = 2048
"""Bytes of all vector registers of a processor, at most: an array with more is memory."""

Place = tuple[Buffer, Expr]
"""The element of a buffer, which has one dimension, at the varying part of an index."""

Near = tuple[Place, int]
"""What is so many elements before a place."""

_NEVER = (Const, Var, Load, Ramp, Broadcast)


def uses(roots: Iterable[Expr], places: Collection[Place] = ()) -> Counter[Expr]:
    """How many users each node has, among those that are evaluated whatever the conditions are.

    Nodes that can neither fault nor read memory count even where they stand behind a condition.
    The indices of loads near one of `places` are not evaluated.
    """
    total: Counter[Expr] = Counter(roots)
    pending = list(total)
    harmless: dict[Expr, bool] = {}
    while pending:
        node = pending.pop()
        parts = node.operands
        if not parts:
            continue
        if places and isinstance(node, Load) and is_near(places, node.buffer, node.indices):
            continue
        if _guards(node):
            parts = (parts[0], *[p for p in parts[1:] if _harmless(p, harmless)])
        for child in parts:
            if child in total:
                total[child] += 1
            else:
                total[child] = 1
                pending.append(child)
    return total


def _guards(node: Expr) -> bool:
    """Whether the children after the first may stay unevaluated."""
    return isinstance(node, Select) or (isinstance(node, BinOp) and node.op in ("and", "or"))


def uses_of(run: Sequence[Store]) -> list[Counter[Expr]]:
    """`uses` of what each store evaluates."""
    return [uses((*store.indices, store.value)) for store in run]


def _harmless(node: Expr, memo: dict[Expr, bool]) -> bool:
    known = memo.get(node)
    if known is None:
        known = not isinstance(node, Load) and all(_harmless(c, memo) for c in children(node))
        memo[node] = known
    return known


def shared_values(
    roots: Iterable[Expr], places: Collection[Place] = (), most: Counter[Expr] | None = None
) -> list[Expr]:
    """The compound values with several users, each after those it is made of.

    Accesses near `places` need no index. `most` are the `uses` of these roots and others, where
    they are known: no value has more users than there.
    """
    if most is not None and not any(_worth_naming(n) for n, count in most.items() if count > 1):
        return []
    counts = uses(roots, places)
    found = [node for node, count in counts.items() if count > 1 and _worth_naming(node)]
    return sorted(found, key=_size) if len(found) > 1 else found


def _worth_naming(node: Expr) -> bool:
    if isinstance(node, _NEVER):
        return False
    if isinstance(node, BinOp) and dt.element(node.dtype) == dt.INDEX:
        return sum(1 for _ in islice(walk_exprs(node), INDEX_SIZE)) == INDEX_SIZE
    if isinstance(node, Cast):
        return not isinstance(node.a, (Const, Var))
    return isinstance(node, (BinOp, Call, Select))


def _size(node: Expr) -> int:
    return sum(1 for _ in walk_exprs(node))


@dataclass(frozen=True)
class SharedLoad:
    """A load worth a name: the first statement that needs it, and the number that use it."""

    load: Load
    first: int
    statements: int


def shared_loads(run: Sequence[Store], used: Sequence[Counter[Expr]]) -> list[SharedLoad]:
    """The loads that several places in `run` repeat, each after those in its own index.

    `run` holds consecutive stores, `used` their `uses_of`. Only buffers that the run does not write
    are considered, and only loads that happen whatever the conditions are.
    """
    written = {store.buffer for store in run}
    total: Counter[Load] = Counter()
    users: dict[Load, list[int]] = {}
    for position, nodes in enumerate(used):
        for node, count in nodes.items():
            if isinstance(node, Load) and not _reads(node, written):
                total[node] += count
                users.setdefault(node, []).append(position)
    found = [SharedLoad(n, at[0], len(at)) for n, at in users.items() if total[n] > 1]
    return sorted(found, key=lambda s: (s.first, _size(s.load)))


def place_of(buffer: Buffer, index: Expr) -> tuple[Place, int]:
    """The place that an access is near, and how many elements behind it."""
    first = index.base if isinstance(index, Ramp) else index
    if isinstance(first, BinOp) and first.op in ("+", "-"):
        distance = int_value(first.b)
        if distance is not None:
            return (buffer, first.a), distance if first.op == "+" else -distance
    return (buffer, first), 0


def is_near(places: Collection[Place], buffer: Buffer, indices: Sequence[Expr]) -> bool:
    """Whether an access is near one of `places`."""
    return bool(places) and len(indices) == 1 and place_of(buffer, indices[0])[0] in places


def shared_places(run: Sequence[Store], used: Sequence[Counter[Expr]]) -> dict[int, list[Near]]:
    """The places near which `run` accesses several elements, by the first store that needs them.

    `run` holds consecutive stores, `used` their `uses_of`. Only accesses count that happen whatever
    the conditions are, and only memory does, not what may be registers. A compiler may take for
    granted that no pointer lies outside of its buffer: places that may lie before it are none, and
    where all accesses are before a place, which may lie behind it, the first of them is taken.
    """
    near: dict[Place, set[int]] = {}
    first: dict[Place, int] = {}
    for position, (store, nodes) in enumerate(zip(run, used)):
        for node in (Load(store.buffer, store.indices), *nodes):
            if not isinstance(node, Load) or len(node.indices) > 1:
                continue
            place, distance = place_of(node.buffer, node.indices[0])
            if _is_compound(place[1]) and _in_memory(node.buffer):
                near.setdefault(place, set()).add(distance)
                first.setdefault(place, position)
    found: dict[int, list[Near]] = {}
    for place, position in first.items():
        if len(near[place]) >= PLACES and not _subtracts(place[1]):
            before = -min(near[place]) if max(near[place]) < 0 else 0
            found.setdefault(position, []).append((place, before))
    return found


def _in_memory(buffer: Buffer) -> bool:
    if buffer.scope == "global" and dt.lanes(buffer.dtype) == 1:
        return True
    shape = buffer.const_shape
    return shape is not None and prod(shape) * dt.itemsize(buffer.dtype) > REGISTERS


def _is_compound(index: Expr) -> bool:
    """Whether an index is computed, without reading memory."""
    return isinstance(index, BinOp) and dt.lanes(index.dtype) == 1 and not index.has_loads


def _subtracts(index: Expr) -> bool:
    """Whether an index of loop variables, which are not negative, may be negative for its form."""
    return any(
        isinstance(n, BinOp) and n.op == "-" or (int_value(n) or 0) < 0 for n in walk_exprs(index)
    )


def _reads(load: Load, written: set[Buffer]) -> bool:
    return any(n.buffer in written for n in loads(load))
