"""Registers in an order in which conditions are asked seldom."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from tensorir.arith import Analyzer
from tensorir.arith.regions.iter_map import determines_all
from tensorir.expr import Var, conjuncts, const
from tensorir.stmt import For, ForKind, If, Stmt, Store, replace
from tensorir.visit import loads, map_children, substitute, variables


def asked_first(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    """Nests over registers with the loops outside that the condition in the innermost speaks of.

    rewrite:
        for i in unrolled(8):                   for j in unrolled(4):
            for j in unrolled(4):                   for i in unrolled(8):
                if j * 8 + t < 29:     ->               if j * 8 + t < 29:
                    R[i, j] = ...                           R[i, j] = ...

    So that a condition can stand around the other loops: it is asked 4 times, not 32, and what it
    lets be read is read once for all registers beside it. Outermost are loops with conditions that
    may be false in the first iteration too: below them the others are true there, and keep nothing
    from being read ahead. Loops are exchanged where each of their iterations has a register of its
    own, which nothing else of the nest reads.
    """
    if not isinstance(stmt, For) or stmt.kind is not ForKind.UNROLLED:
        return map_children(stmt, lambda child: asked_first(child, analyzer))
    nest = [stmt]
    while isinstance(nest[-1].body, For) and nest[-1].body.kind is ForKind.UNROLLED:
        nest.append(nest[-1].body)
    inner = nest[-1].body
    if not isinstance(inner, If) or inner.orelse is not None or not isinstance(inner.then, Store):
        return map_children(stmt, lambda child: asked_first(child, analyzer))
    for first in range(len(nest)):
        if not inner.cond.has_loads and _is_own(inner.then, nest[first:], analyzer):
            asked = _asked(inner, nest[first:], analyzer)
            own = sorted(nest[first:], key=lambda loop: asked.get(loop.var, 2))
            return _nested([*nest[:first], *own], inner)
    return stmt


def _asked(stmt: If, nest: Sequence[For], analyzer: Analyzer) -> dict[Var, int]:
    """Variables that conditions speak of, with 0 for those of one that is not known to be true
    where all loops of the nest begin, and 1 for others."""
    begin = {loop.var: const(0) for loop in nest}
    asked: dict[Var, int] = {}
    for part in conjuncts(stmt.cond):
        sure = int(analyzer.prove(substitute(part, begin)))
        asked |= {v: min(sure, asked.get(v, sure)) for v in variables(part)}
    return asked


def _is_own(store: Store, nest: Sequence[For], analyzer: Analyzer) -> bool:
    """Whether each iteration of a nest has an element of its own of what it stores to."""
    read = [load for load in loads(store.value) if load.buffer is store.buffer]
    extents = {loop.var: loop.extent for loop in nest}
    return (
        store.buffer.scope == "local"
        and all(all(map(is_, load.indices, store.indices)) for load in read)
        and all(extents.keys().isdisjoint(variables(loop.extent)) for loop in nest)
        and determines_all(store.indices, extents, extents, analyzer)
    )


def _nested(nest: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(nest):
        body = replace(loop, body=body)
    return body
