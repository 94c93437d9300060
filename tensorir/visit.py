"""Walking and rewriting programs. A rewrite that changes nothing returns the same object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any

from tensorir import dtype as dt
from tensorir.expr import (
    BinOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    binary,
    cast,
    combine,
    select,
)
from tensorir.stmt import (
    Alloc,
    Block,
    Exchange,
    Extern,
    For,
    If,
    IterVar,
    Let,
    Part,
    Prefetch,
    Seq,
    Stmt,
    Store,
    replace,
)
from tensorir.vector_expr import Broadcast, Ramp, Shuffle

ExprFn = Callable[[Expr], Expr]

_REBUILD: dict[type, Callable[[Any, tuple[Expr, ...]], Expr]] = {
    Not: lambda e, c: negate(c[0]),
    Cast: lambda e, c: cast(e.dtype, c[0]),
    Select: lambda e, c: select(c[0], c[1], c[2]),
    Load: lambda e, c: Load(e.buffer, c),
    Call: lambda e, c: Call(e.name, c, e.dtype),
    Ramp: lambda e, c: Ramp(c[0], c[1], e.lanes),
    Broadcast: lambda e, c: Broadcast(c[0], e.lanes),
    Shuffle: lambda e, c: Shuffle(c[0], c[1], e.indices),
}


def negate(a: Expr) -> Expr:
    """The negation of a condition, pushed into comparisons of integers (NaN forbids floats)."""
    if isinstance(a, Const):
        return Const(not a.value, a.dtype)
    if isinstance(a, Not):
        return a.a
    return Not(a)


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions."""
    return e.operands


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`e` with other subexpressions; folds integer constants on the way."""
    if isinstance(e, BinOp):
        a, b = parts
        if a.dtype == b.dtype == e.a.dtype:  # then `e` shows that the operator is defined
            return combine(e.op, a, b)
        return binary(e.op, a, b)
    make = _REBUILD.get(type(e))
    return e.rebuild(parts) if make is None else make(e, parts)  # type: ignore[attr-defined]


def walk_exprs(
    e: Expr, seen: set[Expr] | None = None, into: Callable[[Expr], bool] | None = None
) -> Iterator[Expr]:
    """`e` and all its subexpressions, each once, parents before children.

    Those in `seen` are left out, and what is found is added: expressions of a program share parts.
    With `into` only the parts of those for which that holds are looked at.
    """
    seen = set() if seen is None else seen
    if e in seen:
        return
    seen.add(e)
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        if into is not None and not into(node):
            continue
        for child in reversed(node.operands):
            if child not in seen:
                seen.add(child)
                stack.append(child)


def walk_places(e: Expr, into: Callable[[Expr], bool]) -> Iterator[tuple[Expr, tuple[int, ...]]]:
    """`e` and its subexpressions, each once, parents before children, with the first place of each:
    which operand of `e`, which operand of that, and so on. Only the parts of those for which `into`
    holds are looked at."""
    places: dict[Expr, tuple[int, ...]] = {e: ()}
    pending = [e]
    for node in pending:  # which grows
        yield node, places[node]
        for n, part in enumerate(node.operands if into(node) else ()):
            if part not in places:
                places[part] = (*places[node], n)
                pending.append(part)


def numbers_of(e: Expr) -> Iterator[Expr]:
    """The largest parts of a value that are computed of variables alone, without constants."""

    def is_number(part: Expr) -> bool:
        return part.dtype == dt.INDEX and not part.has_loads

    for part in walk_exprs(e, into=lambda part: not isinstance(part, Load) and not is_number(part)):
        if is_number(part) and not isinstance(part, Const):
            yield part


def transform(
    e: Expr, rule: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None
) -> Expr:
    """Rewrite bottom up: `rule` sees each node after its children and may return a replacement."""
    memo = {} if memo is None else memo
    done = memo.get(e)
    if done is not None:
        return done
    before = e.operands
    after = tuple([transform(c, rule, memo) for c in before])
    node = e if all(map(is_, before, after)) else rebuild(e, after)
    changed = rule(node)
    result = node if changed is None else changed
    memo[e] = result
    return result


def map_loads(e: Expr, rule: Callable[[Load], Expr | None], memo: dict[Expr, Expr]) -> Expr:
    """`transform` for a rule that only loads are of interest to; goes where there are loads."""
    if not e.has_loads:
        return e
    done = memo.get(e)
    if done is not None:
        return done
    before = e.operands
    after = tuple([map_loads(c, rule, memo) if c.has_loads else c for c in before])
    result = e if all(map(is_, before, after)) else rebuild(e, after)
    if isinstance(result, Load):
        changed = rule(result)
        result = result if changed is None else changed
    memo[e] = result
    return result


def substitute(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`e` with variables replaced."""
    return _substitute(e, values, {}) if values else e


def _substitute(e: Expr, values: Mapping[Var, Expr], memo: dict[Expr, Expr]) -> Expr:
    if isinstance(e, Var):
        return values.get(e, e)
    if e.variables.isdisjoint(values):
        return e
    found = memo.get(e)
    if found is not None:
        return found
    before = e.operands
    after = tuple([_substitute(c, values, memo) for c in before])
    result = e if all(map(is_, before, after)) else rebuild(e, after)
    memo[e] = result
    return result


def variables(e: Expr) -> frozenset[Var]:
    """The variables that occur in `e`."""
    return e.variables


def loads(e: Expr) -> Iterator[Load]:
    """The distinct loads in `e`, in the order of `walk_exprs`."""
    if not e.has_loads:
        return
    seen = {e}
    stack = [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        for child in reversed(node.operands):
            if child.has_loads and child not in seen:
                seen.add(child)
                stack.append(child)


def certain_exprs(e: Expr, into: Callable[[Expr], bool] = lambda part: True) -> Iterator[Expr]:
    """`e` and those of its subexpressions that are found whatever the conditions are, each once;
    of those below `e` only the ones for which `into` holds."""
    stack, seen = [e], {e}
    while stack:
        node = stack.pop()
        yield node
        asks = isinstance(node, Select) or (isinstance(node, BinOp) and node.op in ("and", "or"))
        for child in reversed(node.operands[: 1 if asks else None]):
            if child not in seen and into(child):
                seen.add(child)
                stack.append(child)


def certain_loads(e: Expr) -> Iterator[Load]:
    """Those of `loads(e)` that are done whatever the conditions are."""
    reading = certain_exprs(e, lambda part: part.has_loads)
    return (part for part in reading if isinstance(part, Load))


_BELOW: dict[type, Callable[[Any], tuple[Stmt, ...]]] = {
    Seq: lambda s: s.stmts,
    **dict.fromkeys((For, Let, Alloc), lambda s: (s.body,)),
    Block: lambda s: (s.body,) if s.init is None else (s.init, s.body),
    If: lambda s: (s.then,) if s.orelse is None else (s.then, s.orelse),
}
"""The direct substatements by kind of statement; the others have none."""


def child_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """The direct substatements; of a block its init, if any, and its body."""
    below = _BELOW.get(type(stmt))
    return () if below is None else below(stmt)


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """`stmt` and all statements below it, parents first, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        below = _BELOW.get(type(node))
        if below is not None:
            stack.extend(below(node)[::-1])


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in `stmt`, not those of its substatements."""
    if isinstance(stmt, Store):
        return (*stmt.indices, stmt.value)
    if isinstance(stmt, For):
        return (stmt.extent,)
    if isinstance(stmt, Block):
        return (
            *(it.binding for it in stmt.iters),
            *(it.extent for it in stmt.iters),
            stmt.predicate,
        )
    if isinstance(stmt, If):
        return (stmt.cond,)
    if isinstance(stmt, Let):
        return (stmt.value,)
    if isinstance(stmt, Prefetch):
        return stmt.indices
    if isinstance(stmt, Exchange):
        return (*stmt.indices, stmt.value, stmt.source)
    if isinstance(stmt, Extern):
        return tuple([e for part in stmt.parts for e in (*part.indices, *part.shape)])
    return ()


def blocks(stmt: Stmt) -> Iterator[Block]:
    """All blocks below `stmt`, in program order."""
    return (node for node in walk(stmt) if isinstance(node, Block))


def with_body(loop: For, body: Stmt) -> For:
    """`loop` with another body, as `replace` would have it; itself if that is its own."""
    if body is loop.body:
        return loop
    return For(loop.var, loop.extent, body, loop.kind, loop.annotations, loop.thread)


def map_children(stmt: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """`stmt` with `fn` applied to its direct substatements; the same object if none changed."""
    if isinstance(stmt, Store):
        return stmt
    if isinstance(stmt, For):
        return with_body(stmt, fn(stmt.body))
    if isinstance(stmt, (Let, Alloc)):
        body = fn(stmt.body)
        return stmt if body is stmt.body else replace(stmt, body=body)
    if isinstance(stmt, Seq):
        stmts = tuple([fn(s) for s in stmt.stmts])
        return stmt if all(map(is_, stmts, stmt.stmts)) else Seq(stmts)
    if isinstance(stmt, Block):
        init = None if stmt.init is None else fn(stmt.init)
        body = fn(stmt.body)
        same = init is stmt.init and body is stmt.body
        return stmt if same else replace(stmt, init=init, body=body)
    if isinstance(stmt, If):
        then, orelse = fn(stmt.then), None if stmt.orelse is None else fn(stmt.orelse)
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else replace(stmt, then=then, orelse=orelse)
    return stmt


def map_exprs(stmt: Stmt, fn: ExprFn) -> Stmt:
    """`stmt` with `fn` applied to every expression in it and below; buffers stay."""
    stmt = map_children(stmt, lambda s: map_exprs(s, fn))
    return map_own_exprs(stmt, fn)


def map_own_exprs(stmt: Stmt, fn: ExprFn) -> Stmt:
    """`stmt` with `fn` applied to the expressions that stand directly in it."""
    if isinstance(stmt, Store):
        indices, value = tuple([fn(i) for i in stmt.indices]), fn(stmt.value)
        same = value is stmt.value and all(map(is_, indices, stmt.indices))
        return stmt if same else Store(stmt.buffer, indices, value)
    if isinstance(stmt, For):
        extent = fn(stmt.extent)
        return stmt if extent is stmt.extent else replace(stmt, extent=extent)
    if isinstance(stmt, If):
        cond = fn(stmt.cond)
        return stmt if cond is stmt.cond else replace(stmt, cond=cond)
    if isinstance(stmt, Let):
        value = fn(stmt.value)
        return stmt if value is stmt.value else replace(stmt, value=value)
    if isinstance(stmt, Prefetch):
        indices = tuple([fn(i) for i in stmt.indices])
        same = all(map(is_, indices, stmt.indices))
        return stmt if same else Prefetch(stmt.buffer, indices)
    if isinstance(stmt, Exchange):
        indices, value = tuple([fn(i) for i in stmt.indices]), fn(stmt.value)
        return replace(stmt, indices=indices, value=value, source=fn(stmt.source))
    if isinstance(stmt, Extern):
        return map_parts(stmt, lambda part: _map_part(part, fn))
    if isinstance(stmt, Block):
        iters = tuple([map_iter(it, fn) for it in stmt.iters])
        predicate = fn(stmt.predicate)
        same = predicate is stmt.predicate and all(map(is_, iters, stmt.iters))
        return stmt if same else replace(stmt, iters=iters, predicate=predicate)
    return stmt


def map_parts(stmt: Extern, fn: Callable[[Part], Part]) -> Extern:
    """`stmt` with `fn` applied to its parts; the same object if none changed."""
    outputs, inputs = tuple(map(fn, stmt.outputs)), tuple(map(fn, stmt.inputs))
    same = all(a is b for a, b in zip((*inputs, *outputs), stmt.parts))
    return stmt if same else Extern(stmt.name, outputs, inputs)


def _map_part(part: Part, fn: ExprFn) -> Part:
    indices, shape = tuple(map(fn, part.indices)), tuple(map(fn, part.shape))
    before = (*part.indices, *part.shape)
    same = all(a is b for a, b in zip((*indices, *shape), before))
    return part if same else Part(part.buffer, indices, shape)


def map_iter(it: IterVar, fn: ExprFn) -> IterVar:
    """`it` with `fn` applied to its binding and extent."""
    binding, extent = fn(it.binding), fn(it.extent)
    same = binding is it.binding and extent is it.extent
    return it if same else replace(it, binding=binding, extent=extent)


def substitute_stmt(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with variables replaced everywhere."""
    if not values:
        return stmt
    memo: dict[Expr, Expr] = {}
    return map_exprs(stmt, lambda e: _substitute(e, values, memo))
