"""simplify: the final cleaning of expressions, loops and memory that nothing needs."""

from __future__ import annotations

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import NOTHING, is_nothing, replace_exprs, with_body
from tensorir.stmt import Alloc, Extern, For, ForKind, If, Let, Prefetch, Seq, Stmt, Store, seq
from tensorir.visit import loads, map_children, map_own_exprs, stmt_exprs, variables, walk


def simplify(func: PrimFunc) -> PrimFunc:
    """Simplify all expressions; drop what cannot run, loops of one iteration and dead memory."""
    exprs = (e for s in walk(func.body) for e in stmt_exprs(s))
    read = {load.buffer for e in exprs for load in loads(e)}
    # An output of an extern function that nobody reads is written all the same.
    read |= {p.buffer for s in walk(func.body) if isinstance(s, Extern) for p in s.parts}
    return with_body(func, _clean(func.body, function_analyzer(func), read))


def _clean(stmt: Stmt, analyzer: Analyzer, read: set[Buffer]) -> Stmt:
    stmt = map_own_exprs(stmt, analyzer.simplify)
    if isinstance(stmt, If) and isinstance(stmt.cond, Const):
        return _clean(stmt.then if stmt.cond.value else stmt.orelse or NOTHING, analyzer, read)
    if isinstance(stmt, For) and isinstance(stmt.extent, Const):
        if stmt.extent.value <= 0:
            return NOTHING
        if stmt.extent.value == 1 and stmt.kind is not ForKind.THREAD:
            body = replace_exprs(stmt.body, {stmt.var: Const(0, stmt.var.dtype)})
            return _clean(body, analyzer, read)
    result = map_children(stmt, lambda child: _clean(child, analyzer, read))
    if isinstance(result, Alloc) and result.buffer not in read:
        result = _without_stores(result.body, result.buffer)
    if isinstance(result, Let) and not _used(result):
        result = result.body
    if is_nothing(result):
        return NOTHING
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def _used(let: Let) -> bool:
    return any(let.var in variables(e) for s in walk(let.body) for e in stmt_exprs(s))


def _without_stores(stmt: Stmt, buffer: Buffer) -> Stmt:
    if isinstance(stmt, (Store, Prefetch)) and stmt.buffer is buffer:
        return NOTHING
    result = map_children(stmt, lambda child: _without_stores(child, buffer))
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result
