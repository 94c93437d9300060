"""Recognising what the update of a reduction block does, so that it can run on whole arrays."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Expr, Load, Select, Var
from tensorir.stmt import Let, Seq, Stmt, Store
from tensorir.te.reducer import ARGMAX, ARGMIN
from tensorir.visit import loads, walk

FOLDS = ("+", "*", "max", "min", "and", "or")
SUMS = ("+", "*")
"""Of these, what gives the same whatever stands first; the others may for a NaN tell them apart."""


@dataclass(frozen=True, eq=False)
class Fold:
    """`buffer = buffer op source`, where `cond`."""

    buffer: Buffer
    op: str
    source: Expr
    cond: Expr

    @property
    def asked(self) -> tuple[Expr, ...]:
        return self.source, self.cond


@dataclass(frozen=True, eq=False)
class ArgFold:
    """The extreme (`op`) of `source` and its `position`, where `cond`; see te.argmax."""

    index: Buffer
    value: Buffer
    op: str
    position: Expr
    source: Expr
    cond: Expr

    @property
    def asked(self) -> tuple[Expr, ...]:
        return self.position, self.source, self.cond


def match_folds(body: Stmt) -> list[Fold | ArgFold] | None:
    """The folds that `body` makes, in any order, or None if it does something else: as where one
    reads what another one holds so far."""
    folds: list[Fold | ArgFold] = []
    for part in body.stmts if isinstance(body, Seq) else (body,):
        found = _match_each(part) or _match_arg(part)
        if not found:
            return None
        folds += found
    stored = [s.buffer for s in walk(body) if isinstance(s, Store)]
    read = {load.buffer for fold in folds for e in fold.asked for load in loads(e)}
    apart = len(stored) == len({*stored}) and read.isdisjoint(stored)
    return folds if apart else None


def _strip_condition(value: Expr, old: Expr) -> tuple[Expr, Expr]:
    """Split select(cond, new, old) into new and cond; the condition is true if there is none."""
    if isinstance(value, Select) and value.b is old:
        return value.a, value.cond
    return value, TRUE


def _read_before(stmt: Stmt) -> tuple[dict[Expr, Var], tuple[Stmt, ...]]:
    """The values that are read before anything is stored, by what is read, and what follows."""
    olds: dict[Expr, Var] = {}
    while isinstance(stmt, Let):
        olds[stmt.value] = stmt.var
        stmt = stmt.body
    return olds, stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def _match_each(stmt: Stmt) -> list[Fold | ArgFold]:
    """One fold for each store, where none asks what the others hold; none for anything else.

    Those of several results read all of them before they store any.
    """
    olds, stores = _read_before(stmt)
    loads = [Load(s.buffer, s.indices) for s in stores if isinstance(s, Store)]
    if len(loads) < len(stores) or not olds.keys() <= {*loads}:
        return []
    names = frozenset(olds.values())
    found = [
        _match_fold(store, olds.get(load, load), names)
        for store, load in zip(stores, loads)
        if isinstance(store, Store)
    ]
    return [fold for fold in found if fold is not None] if None not in found else []


def _match_fold(store: Store, old: Expr, names: frozenset[Var]) -> Fold | None:
    value, cond = _strip_condition(store.value, old)
    if not isinstance(value, BinOp) or value.op not in FOLDS:
        return None
    first, source = value.a, value.b
    if source is old and value.op in SUMS:
        first, source = source, first
    if first is not old or names & (source.variables | cond.variables):
        return None
    return Fold(store.buffer, value.op, source, cond)


def _match_arg(stmt: Stmt) -> list[Fold | ArgFold]:
    """Two reads of the old pair, two stores of what te.argmax or te.argmin makes of it."""
    olds, stores = _read_before(stmt)
    if len(olds) != 2 or len(stores) != 2:
        return []
    index, value = stores
    if not isinstance(index, Store) or not isinstance(value, Store):
        return []
    if [*olds] != [Load(s.buffer, s.indices) for s in (index, value)]:
        return []
    first, second = olds.values()
    found = _match_pair((first, second), index, value)
    return [] if found is None else [found]


def _match_pair(old: tuple[Var, Var], index: Store, value: Store) -> ArgFold | None:
    new_index, cond = _strip_condition(index.value, old[0])
    new_value, other = _strip_condition(value.value, old[1])
    if cond is not other or not isinstance(new_index, Select) or not isinstance(new_value, Select):
        return None
    new = (new_index.b, new_value.b)
    for reducer, op in ((ARGMAX, "max"), (ARGMIN, "min")):
        wanted = reducer.combine(old, new)
        if wanted[0] is new_index and wanted[1] is new_value:
            return ArgFold(index.buffer, value.buffer, op, *new, cond)
    return None
