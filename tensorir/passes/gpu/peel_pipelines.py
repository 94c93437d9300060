"""peel_pipelines: the first iterations of a pipelined loop, in which late stages are idle, stand
before it.

So what computes need not ask in each iteration whether there is something to compute. What loads
ahead asks: the last iterations behind the loop would be a second copy of the longest text of a
kernel, which compilers take as long for again.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorir.expr import Expr, Var, const
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.passes.simplify import simplify
from tensorir.stmt import For, Seq, Stmt, Sync, replace, seq
from tensorir.visit import map_children, substitute_stmt

PIPELINE = "pipeline"


def peel_pipelines(func: PrimFunc) -> PrimFunc:
    """Part a pipelined loop into the iterations before all stages have begun and the others.

    rewrite:
        for k in range(9, pipeline [0, 1]):         S[0, t] = A[t]
            if k < 8:                               sync("block")
                S[k % 2, t] = A[k * 8 + t]          for k in range(8):
            sync("block")                               sync("block")
            if 1 <= k:                                  if k < 7:
                R[0] = R[0] + S[(k + 1) % 2, 7 - t]         S[(k + 1) % 2, t] = A[k * 8 + t + 8]
            sync("block")                   ->          sync("block")
                                                        R[0] = R[0] + S[k % 2, 7 - t]
                                                    sync("block")

    What is known of the iterations then decides whether a stage has begun. The Sync between two
    iterations stands at the beginning of the second: one there serves the iterations ahead too, so
    that as many are kept as there are steps. Requires that fold_buffers ran, and that barriers
    follows, which drops those that are not needed.
    """
    fresh = fresh_names(func.body, [b.name for b in (*func.params, *func.buffers)])
    body = _visit(func.body, fresh)
    return func if body is func.body else simplify(with_body(func, body))


def _visit(stmt: Stmt, fresh: Callable[[str], str]) -> Stmt:
    made = map_children(stmt, lambda child: _visit(child, fresh))
    if not isinstance(made, For) or PIPELINE not in made.annotations:
        return made
    return _parted(made, max(made.annotations[PIPELINE]), fresh)


def _parted(loop: For, stages: int, fresh: Callable[[str], str]) -> Stmt:
    """The first `stages` iterations, and the others."""

    def part(extent: Expr, start: Expr, name: str) -> For:
        var = Var(fresh(f"{loop.name}_{name}"), loop.var.dtype)
        body = substitute_stmt(loop.body, {loop.var: start + var})
        return replace(loop, var=var, extent=extent, body=body, annotations={})

    begun = const(stages)
    first, rest = part(begun, const(0), "first"), part(loop.extent - stages, begun, "all")
    *steps, between = rest.body.stmts if isinstance(rest.body, Seq) else (rest.body,)
    if not isinstance(between, Sync):
        return seq(first, rest)
    return seq(first, replace(rest, body=seq(between, *steps)), Sync(between.scope))
