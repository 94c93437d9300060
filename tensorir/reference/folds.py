"""Recognising what the update of a reduction block does, so that it can run on whole arrays."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Expr, Load, Select, Var
from tensorir.stmt import Let, Seq, Stmt, Store
from tensorir.te.reducer import ARGMAX, ARGMIN

FOLDS = ("+", "*", "max", "min", "and", "or")


@dataclass(frozen=True, eq=False)
class Fold:
    """`buffer = buffer op source`, where `cond`."""

    buffer: Buffer
    op: str
    source: Expr
    cond: Expr


@dataclass(frozen=True, eq=False)
class ArgFold:
    """The extreme (`op`) of `source` and its `position`, where `cond`; see te.argmax."""

    index: Buffer
    value: Buffer
    op: str
    position: Expr
    source: Expr
    cond: Expr


def match_folds(body: Stmt) -> list[Fold | ArgFold] | None:
    """The folds that `body` makes one after the other, or None if it does something else."""
    parts = body.stmts if isinstance(body, Seq) else (body,)
    folds = [_match_fold(p) if isinstance(p, Store) else _match_arg(p) for p in parts]
    return None if None in folds else folds  # type: ignore[return-value]


def _strip_condition(value: Expr, old: Expr) -> tuple[Expr, Expr]:
    """Split select(cond, new, old) into new and cond; the condition is true if there is none."""
    if isinstance(value, Select) and value.b is old:
        return value.a, value.cond
    return value, TRUE


def _match_fold(store: Store) -> Fold | None:
    old = Load(store.buffer, store.indices)
    value, cond = _strip_condition(store.value, old)
    if isinstance(value, BinOp) and value.op in FOLDS and value.a is old:
        return Fold(store.buffer, value.op, value.b, cond)
    return None


def _match_arg(stmt: Stmt) -> ArgFold | None:
    """Two reads of the old pair, two stores of what te.argmax or te.argmin makes of it."""
    olds: list[Let] = []
    while isinstance(stmt, Let):
        olds.append(stmt)
        stmt = stmt.body
    if len(olds) != 2 or not isinstance(stmt, Seq) or len(stmt.stmts) != 2:
        return None
    index, value = stmt.stmts
    if not isinstance(index, Store) or not isinstance(value, Store):
        return None
    for let, store in zip(olds, (index, value)):
        if let.value is not Load(store.buffer, store.indices):
            return None
    old = (olds[0].var, olds[1].var)
    return _match_pair(old, index, value)


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
