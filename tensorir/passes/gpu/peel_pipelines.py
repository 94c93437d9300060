"""peel_pipelines: the first and last iterations of a pipelined loop stand before and behind it.

So the loop need not ask in each iteration whether a stage has one to work on.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorir.expr import Expr, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.passes.simplify import simplify
from tensorir.stmt import For, If, Stmt, replace, seq
from tensorir.visit import map_children, substitute_stmt

PIPELINE = "pipeline"


def peel_pipelines(func: PrimFunc) -> PrimFunc:
    """Part a pipelined loop into iterations in which all stages work, those before and those after.

    rewrite:
        for k in range(9, pipeline [0, 1]):         S[0, t] = A[t]
            if k < 8:                               sync("block")
                S[k % 2, t] = A[k * 8 + t]          for k in range(7):
            sync("block")                               S[(k + 1) % 2, t] = A[k * 8 + t + 8]
            if 1 <= k:                                  sync("block")
                R[0] = R[0] + S[(k + 1) % 2, 7 - t]     R[0] = R[0] + S[k % 2, 7 - t]
            sync("block")                   ->          sync("block")
                                                    R[0] = R[0] + S[1, 7 - t]

    What is known of the iterations then decides the conditions of stages. Where the number of
    iterations is a size, the last ones are asked whether they were among the first. Requires that
    fold_buffers ran.
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
    """Iterations up to `stages`, those of which all stages have one, and `stages` more."""
    full = loop.extent - stages
    many = int_value(full)
    if many is not None and many < stages:
        return loop  # there is no iteration in which all stages work

    def part(extent: Expr, start: Expr, name: str) -> For:
        var = Var(fresh(f"{loop.name}_{name}"), loop.var.dtype)
        body = substitute_stmt(loop.body, {loop.var: start + var})
        return replace(loop, var=var, extent=extent, body=body, annotations={})

    first = part(const(stages), const(0), "first")
    rest = full - stages
    middle = part(rest if many is not None else binary("max", rest, const(0)), const(stages), "all")
    last = part(const(stages), full, "last")
    if many is None:
        last = replace(last, body=If(binary("<=", const(stages), full + last.var), last.body))
    return seq(first, middle, last)
