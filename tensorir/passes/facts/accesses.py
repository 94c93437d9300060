"""Where a program touches its buffers: every load, store and part of an Extern with the statements
around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Select, Var, all_of, conjuncts
from tensorir.parts import buffers_in, part_axes, touched
from tensorir.stmt import Extern, For, If, Stmt
from tensorir.visit import child_stmts, loads, stmt_exprs, walk


@dataclass(frozen=True)
class Access:
    """One load, store or part. `path` leads from the root to the statement it stands in, included.

    `conditions` are the conjuncts of the Ifs around it, `guards` those of the Selects of which it
    is one side.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    path: tuple[Stmt, ...]
    conditions: frozenset[Expr]
    is_write: bool
    guards: frozenset[Expr] = frozenset()

    @cached_property
    def known(self) -> Expr:
        """What certainly holds where the access is made, as far as no memory is read for it."""
        return all_of(*[c for c in self.conditions | self.guards if not c.has_loads])

    def loops(self, start: int = 0) -> list[For]:
        """The loops on the path from position `start` on, outermost first."""
        return [s for s in self.path[start:] if isinstance(s, For)]

    def inner(self, start: int = 0) -> dict[Var, Expr]:
        """The variables of `loops` with their extents, and those that run over a part."""
        found = {loop.var: loop.extent for loop in self.loops(start)}
        return found | self.part_axes

    @property
    def part_axes(self) -> dict[Var, Expr]:
        """The variables that run over a part, if this is one; a buffer may be handed over twice."""
        last = self.path[-1]
        parts = last.parts if isinstance(last, Extern) else ()
        own = [part_axes(part) for part in parts if part.buffer is self.buffer]
        return {var: extent for axes in own for var, extent in axes.items()}


def accesses(root: Stmt) -> dict[Buffer, list[Access]]:
    """All accesses by buffer, in the order in which the program makes them."""
    found: dict[Buffer, list[Access]] = {}
    _collect(root, (), frozenset(), found, None)
    return found


def accesses_of(root: Stmt, buffer: Buffer) -> list[Access]:
    """Those of one buffer; looks at no statement that has none."""
    found: dict[Buffer, list[Access]] = {}
    _collect(root, (), frozenset(), found, buffer)
    return found.get(buffer, [])


def changes(exprs: Iterable[Expr], stmt: Stmt) -> bool:
    """Whether some of the expressions read memory that `stmt` writes."""
    asked = {load.buffer for e in exprs if e.has_loads for load in loads(e)}
    if not asked:
        return False
    return any(w and buffer in asked for s in walk(stmt) for buffer, _, w in touched(s))


def _collect(
    stmt: Stmt,
    above: tuple[Stmt, ...],
    conditions: frozenset[Expr],
    found: dict[Buffer, list[Access]],
    wanted: Buffer | None,
) -> None:
    """Add the accesses in `stmt` to those `found`; with `wanted` where that is touched."""
    inside = buffers_in(stmt)
    if not inside if wanted is None else wanted not in inside:
        return
    path = (*above, stmt)
    for e in stmt_exprs(stmt):
        for load, guards in _loads(e, frozenset()) if e.has_loads else ():
            access = Access(load.buffer, load.indices, path, conditions, False, guards)
            found.setdefault(load.buffer, []).append(access)
    for buffer, indices, is_write in touched(stmt):
        access = Access(buffer, indices, path, conditions, is_write)
        found.setdefault(buffer, []).append(access)
    if isinstance(stmt, If):
        then = conditions.union(conjuncts(stmt.cond))
        _collect(stmt.then, path, then, found, wanted)
        if stmt.orelse is not None:
            _collect(stmt.orelse, path, conditions | {~stmt.cond}, found, wanted)
        return
    for child in child_stmts(stmt):
        _collect(child, path, conditions, found, wanted)


def _loads(root: Expr, guards: frozenset[Expr]) -> Iterator[tuple[Load, frozenset[Expr]]]:
    """The loads in an expression, each once under the same guards: values share parts."""
    stack, seen = [(root, guards)], {(root, guards)}
    while stack:
        e, known = stack.pop()
        if isinstance(e, Load):
            yield e, known
        if isinstance(e, Select):
            then, other = known.union(conjuncts(e.cond)), known | {~e.cond}
            parts = [(e.cond, known), (e.a, then), (e.b, other)]
        else:
            parts = [(child, known) for child in e.operands if child.has_loads]
        fresh = [part for part in parts if part not in seen]
        seen.update(fresh)
        stack += reversed(fresh)
