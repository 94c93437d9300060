"""Sharing: which values deserve a name, so that the emitted text stays short.

Expressions are interned, so a value that is used twice is one node with two users. Printed as a
tree it would be written twice, and chains of such values would grow exponentially.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    walk_exprs,
)
from tensorir import dtype as dt

INDEX_SIZE = 8
"""Integer expressions with fewer nodes than this read better where they stand."""

_NEVER = (Const, Var, Load, Ramp, Broadcast)


def uses(roots: Iterable[Expr]) -> Counter[Expr]:
    """How many users each node has, among those that are evaluated whatever the conditions are.

    Nodes that can neither fault nor read memory count even where they stand behind a condition.
    """
    roots = tuple(roots)
    total: Counter[Expr] = Counter(roots)
    pending = list(dict.fromkeys(roots))
    seen = set(pending)
    harmless: dict[Expr, bool] = {}
    while pending:
        node = pending.pop()
        for position, child in enumerate(children(node)):
            if _guards(node, position) and not _harmless(child, harmless):
                continue
            total[child] += 1
            if child not in seen:
                seen.add(child)
                pending.append(child)
    return total


def _guards(node: Expr, position: int) -> bool:
    """Whether the child at `position` may stay unevaluated."""
    if isinstance(node, Select):
        return position > 0
    return isinstance(node, BinOp) and node.op in ("and", "or") and position > 0


def _harmless(node: Expr, memo: dict[Expr, bool]) -> bool:
    known = memo.get(node)
    if known is None:
        known = not isinstance(node, Load) and all(_harmless(c, memo) for c in children(node))
        memo[node] = known
    return known


def shared_values(roots: Iterable[Expr]) -> list[Expr]:
    """The compound values with several users, each after those it is made of."""
    counts = uses(roots)
    found = [node for node, count in counts.items() if count > 1 and _worth_naming(node)]
    return sorted(found, key=_size) if len(found) > 1 else found


def _worth_naming(node: Expr) -> bool:
    if isinstance(node, _NEVER):
        return False
    if isinstance(node, BinOp) and dt.element(node.dtype) == dt.INDEX:
        return _size(node) >= INDEX_SIZE
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


def shared_loads(run: Sequence[Store]) -> list[SharedLoad]:
    """The loads that several places in `run` repeat, each after those in its own index.

    `run` holds consecutive stores. Only buffers that the run does not write are considered, and
    only loads that happen whatever the conditions are.
    """
    written = {store.buffer for store in run}
    total: Counter[Load] = Counter()
    users: dict[Load, list[int]] = {}
    for position, store in enumerate(run):
        for node, count in uses((*store.indices, store.value)).items():
            if isinstance(node, Load) and not _reads(node, written):
                total[node] += count
                users.setdefault(node, []).append(position)
    found = [SharedLoad(n, at[0], len(at)) for n, at in users.items() if total[n] > 1]
    return sorted(found, key=lambda s: (s.first, _size(s.load)))


def _reads(load: Load, written: set[Buffer]) -> bool:
    return any(isinstance(n, Load) and n.buffer in written for n in walk_exprs(load))
