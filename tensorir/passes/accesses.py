"""Where a program touches its buffers: every load and store with the statements around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Select, conjuncts
from tensorir.stmt import For, If, Stmt, Store
from tensorir.visit import child_stmts, children, stmt_exprs


@dataclass(frozen=True)
class Access:
    """One load or store. `path` leads from the root to the statement it stands in, that included.

    `conditions` are the load-free conjuncts of the Ifs around it; `guarded` says whether it may
    be skipped for another reason, as one side of a Select.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    path: tuple[Stmt, ...]
    conditions: frozenset[Expr]
    is_write: bool
    guarded: bool = False

    def loops(self, start: int = 0) -> list[For]:
        """The loops on the path from position `start` on, outermost first."""
        return [s for s in self.path[start:] if isinstance(s, For)]


def accesses(root: Stmt) -> dict[Buffer, list[Access]]:
    """All accesses by buffer, in the order in which the program makes them."""
    found: dict[Buffer, list[Access]] = {}
    for access in _visit(root, (), frozenset()):
        found.setdefault(access.buffer, []).append(access)
    return found


def _visit(stmt: Stmt, above: tuple[Stmt, ...], conditions: frozenset[Expr]) -> Iterator[Access]:
    path = (*above, stmt)
    for e in stmt_exprs(stmt):
        for load, guarded in _loads(e, False):
            yield Access(load.buffer, load.indices, path, conditions, False, guarded)
    if isinstance(stmt, Store):
        yield Access(stmt.buffer, stmt.indices, path, conditions, True)
    if isinstance(stmt, If):
        yield from _visit(stmt.then, path, conditions.union(conjuncts(stmt.cond)))
        if stmt.orelse is not None:
            yield from _visit(stmt.orelse, path, conditions | {~stmt.cond})
        return
    for child in child_stmts(stmt):
        yield from _visit(child, path, conditions)


def _loads(e: Expr, guarded: bool) -> Iterator[tuple[Load, bool]]:
    if isinstance(e, Load):
        yield e, guarded
    for n, child in enumerate(children(e)):
        yield from _loads(child, guarded or isinstance(e, Select) and n > 0)
