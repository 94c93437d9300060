"""lower_blocks: blocks disappear; their variables become expressions of the loops."""

from __future__ import annotations

from tensorir.arith import Analyzer
from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, all_of, conjuncts, in_turn
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import Scope
from tensorir.passes.rewriting import NOTHING, with_body
from tensorir.passes.simplify import simplify_data
from tensorir.stmt import Block, For, If, Seq, Stmt, seq
from tensorir.visit import map_children, substitute_stmt


def lower_blocks(func: PrimFunc) -> PrimFunc:
    """Substitute the bindings, and turn what is left of a predicate into an If.

    A block nested in another one goes first: its bindings may speak of variables of the outer
    one that have the names of its own. Requires that lower_init ran.
    """
    scope = Scope(func)
    return with_body(func, _lower(func.body, scope, scope.top))


def _lower(stmt: Stmt, scope: Scope, analyzer: Analyzer) -> Stmt:
    if isinstance(stmt, For):
        if stmt.const_extent == 0:
            return NOTHING
        analyzer = scope.inside(analyzer, {stmt.var: stmt.extent})
    result = map_children(stmt, lambda child: _lower(child, scope, analyzer))
    if isinstance(result, Block):
        return _lower_block(result, analyzer)
    return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result


def _lower_block(block: Block, analyzer: Analyzer) -> Stmt:
    if block.init is not None:
        raise TensorIRError(f"block {block.name!r} still has its init; run lower_init first")
    bound = {it.var: analyzer.simplify(it.binding) for it in block.iters}
    left = [c for c in conjuncts(block.predicate) if not analyzer.prove(c)]
    condition = all_of(*[simplify_data(analyzer, c) for c in left])
    body = substitute_stmt(block.body, bound)
    for part in reversed(in_turn(condition)):
        body = body if part is TRUE else If(part, body)
    return body
