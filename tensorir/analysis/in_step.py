"""Pipelined loops as they were before: with all stages at work on one iteration.

A statement of stage s does in iteration k what belongs to iteration k - s. These are the same
instances as in the plain loop, in another order. So whatever does not depend on their order is told
of the plain loop as well, which is easier to tell it of; and so is that what is read of a buffer is
written before, where no statement that writes it is of a later stage than one that reads it: what
comes before in the plain loop, iteration by iteration and in each of them stage by stage, then
comes before in the pipeline too.
"""

from __future__ import annotations

from functools import lru_cache

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Var, all_of, binary, conjuncts, const
from tensorir.parts import touched
from tensorir.stmt import Block, For, Seq, Stmt, replace
from tensorir.visit import loads, map_children, map_iter, stmt_exprs, substitute, walk

PIPELINES = 256
"""Statements of pipelines, and conditions in them, of which is kept what they are in step."""


def in_step(loop: For, buffer: Buffer) -> For | None:
    """The plain loop that a pipeline does the work of, as far as `buffer` goes; None where that
    cannot be told."""
    stages, body = loop.annotations.get("pipeline"), loop.body
    if not stages or not isinstance(body, Seq) or len(stages) != len(body.stmts):
        return None
    if not _flows_forward(body.stmts, tuple(stages), buffer):
        return None
    last = max(stages)
    extent = Analyzer().simplify(loop.extent - last)
    parts: list[Stmt] = []
    for stage, n in sorted((stage, n) for n, stage in enumerate(stages)):
        part = _moved(body.stmts[n], loop.var, extent, stage, stage == last)
        if part is None:
            return None
        parts.append(part)
    return For(loop.var, extent, Seq(tuple(parts)), loop.kind, thread=loop.thread)


def _flows_forward(parts: tuple[Stmt, ...], stages: tuple[int, ...], buffer: Buffer) -> bool:
    """Whether no statement that writes `buffer` is of a later stage than one that reads it."""
    uses = [_uses(part, buffer) for part in parts]
    writing = [stage for stage, (_, writes) in zip(stages, uses) if writes]
    reading = [stage for stage, (reads, _) in zip(stages, uses) if reads]
    return not writing or not reading or max(writing) <= min(reading)


@lru_cache(maxsize=PIPELINES)
def _uses(part: Stmt, buffer: Buffer) -> tuple[bool, bool]:
    """Whether `part` reads the buffer, and whether it writes it."""
    reads = writes = False
    for stmt in walk(part):
        for other, _, is_write in touched(stmt):
            if other is buffer:
                reads, writes = reads or not is_write, writes or is_write
        reads = reads or any(
            [load.buffer is buffer for e in stmt_exprs(stmt) for load in loads(e)]
        )
    return reads, writes


@lru_cache(maxsize=PIPELINES)
def _moved(stmt: Stmt, var: Var, extent: Expr, stage: int, is_last: bool) -> Stmt | None:
    """A statement of a stage with the iteration that it works on called `var`; None where it may
    work on iterations that there are not, or is none of blocks and loops around them."""
    values: dict[Var, Expr] = {var: var + stage}
    known = Analyzer({var: extent})
    failed = False

    def visit(node: Stmt) -> Stmt:
        nonlocal failed
        if isinstance(node, Block):
            moves = not (stage and node.init) and _keeps_to(
                tuple([c for c in conjuncts(node.predicate) if var in c.variables]),
                var, extent, stage, is_last,
            )  # fmt: skip
            failed = failed or not moves
            if failed:
                return node
            iters = tuple([map_iter(it, moved) for it in node.iters])
            left = all_of(*[moved(c) for c in conjuncts(node.predicate)])
            return replace(node, iters=iters, predicate=left)
        if not isinstance(node, (For, Seq)):
            failed = True
            return node
        if isinstance(node, For) and var in node.extent.variables:
            node = replace(node, extent=moved(node.extent))
        return map_children(node, visit)

    def moved(e: Expr) -> Expr:
        return known.simplify(substitute(e, values)) if var in e.variables else e

    result = visit(stmt)
    return None if failed else result


@lru_cache(maxsize=PIPELINES)
def _keeps_to(
    conditions: tuple[Expr, ...], var: Var, extent: Expr, stage: int, is_last: bool
) -> bool:
    """Whether `conditions` leave the iterations alone in which a stage has something to do; the
    last one has that until the end."""
    started = TRUE if not stage else binary("<=", const(stage), var)
    goes_on = TRUE if is_last else binary("<", var, extent + stage)
    known = Analyzer()
    known.bind_range(var, 0, None)
    return known.assuming(all_of(*conditions)).prove(all_of(started, goes_on))
