"""What several passes do to a tree of statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace as _replace
from operator import is_

from tensorir.errors import TensorIRError
from tensorir.expr import Const, Expr, Var
from tensorir.func import PrimFunc
from tensorir.stmt import (
    Block,
    Exchange,
    Extern,
    For,
    ForKind,
    If,
    Prefetch,
    Seq,
    Stmt,
    Store,
    Sync,
    replace,
    seq,
)
from tensorir.visit import child_stmts, map_children, map_own_exprs, rebuild, walk

Pass = Callable[[PrimFunc], PrimFunc]
"""What lowering is made of."""

NOTHING = Seq(())
"""The statement that does nothing."""


def chosen(
    passes: Sequence[tuple[str, Pass]], until: str | None, without: Collection[str]
) -> list[tuple[str, Pass]]:
    """Those up to the one named `until`, or all, less those named `without`. Raises TensorIRError
    for a name that none has."""
    names = [name for name, _ in passes]
    for name in (*without, *(() if until is None else (until,))):
        if name not in names:
            known = ", ".join(names)
            raise TensorIRError(f"lower: there is no pass {name!r} for this target; it has {known}")
    end = len(names) if until is None else names.index(until) + 1
    return [(name, run) for name, run in passes[:end] if name not in without]


def with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """`func` with another program; the same object where it is the same."""
    return func if body is func.body else _replace(func, body=body)


def replace_stmts(stmt: Stmt, changes: Mapping[Stmt, Stmt]) -> Stmt:
    """`stmt` with the statements that are keys of `changes` (by identity) replaced."""
    found = changes.get(stmt)
    if found is not None:
        return found
    result = map_children(stmt, lambda child: replace_stmts(child, changes))
    # A statement that became a sequence is spliced into the sequence around it.
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def fresh_names(body: Stmt, others: Iterable[str] = ()) -> Callable[[str], str]:
    """A source of names that no loop or block of `body` has, nor are among `others`: wanted,
    wanted_1, wanted_2, ..."""
    taken = {s.name for s in walk(body) if isinstance(s, (For, Block))} | set(others)

    def fresh(wanted: str) -> str:
        name, n = wanted, 0
        while name in taken:
            n += 1
            name = f"{wanted}_{n}"
        taken.add(name)
        return name

    return fresh


def replace_exprs(stmt: Stmt, changes: Mapping[Expr, Expr]) -> Stmt:
    """`stmt` with every occurrence of the keys of `changes` replaced, outermost first.

    Every key has a variable. Conditions that become constant disappear, with the statements that
    cannot run.
    """
    memo: dict[Expr, Expr] = dict(changes)
    wanted = frozenset[Var]().union(*[e.variables for e in changes])

    def rewrite(e: Expr) -> Expr:
        if e.variables.isdisjoint(wanted):
            return e
        done = memo.get(e)
        if done is not None:
            return done
        before = e.operands
        after = tuple([rewrite(c) for c in before])
        done = memo[e] = e if all(map(is_, before, after)) else rebuild(e, after)
        return done

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, If):
            cond = rewrite(node.cond)
            if isinstance(cond, Const):
                return visit(node.then) if cond.value else visit(node.orelse or NOTHING)
            if cond is not node.cond:
                node = replace(node, cond=cond)
        elif isinstance(node, Block):
            raise TypeError("blocks are lowered before expressions are replaced")
        else:
            node = map_own_exprs(node, rewrite)
        result = map_children(node, visit)
        if result is node:
            return node
        if is_nothing(result):
            return NOTHING
        return seq(*result.stmts) if isinstance(result, Seq) else result

    return visit(stmt)


def is_nothing(stmt: Stmt) -> bool:
    """Whether `stmt` has no statements, or holds nothing but such statements. A loop that is run
    does nothing where it only asks for memory: of a tile of which nothing is left."""
    if isinstance(stmt, (Store, Extern, Prefetch, Sync, Exchange)):
        return False
    below = child_stmts(stmt)
    if isinstance(stmt, For) and stmt.kind is not ForKind.UNROLLED:  # as requests for lines are
        below = stmt.body.stmts if isinstance(stmt.body, Seq) else below
        return all(isinstance(s, Prefetch) or is_nothing(s) for s in below)
    return all(map(is_nothing, below))
