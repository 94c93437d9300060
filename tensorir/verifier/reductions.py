"""Reductions: what has to hold so that an init means the same in every order of the loops.

The init runs before the reduction, once for each value of the spatial variables. So nothing in the
reduction may repeat an instance, which would be added twice to one init; what the init reads must
not be written inside of the reduction; and no block around may run a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tensorir.analysis.block_accesses import blocks_below, written
from tensorir.analysis.independence import analyzer_of
from tensorir.arith import determines_all, tells_apart
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.expr import Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.rewrite.reduction import reduction_loop
from tensorir.scalars import SizeRanges
from tensorir.stmt import Block, For, IterKind, Stmt
from tensorir.visit import child_stmts, loads, stmt_exprs, variables, walk

Loops = tuple[For, ...]
Ranges = tuple[tuple[Var, Expr], ...]

VERDICTS = 4096
"""Answers that are kept: most steps of a schedule leave most reductions alone."""


def check_reductions(func: PrimFunc) -> None:
    """Raise VerifyError for an init that would not start its reduction once."""
    sizes = func.size_ranges
    for block, loops, outer in _with_init(func.body, (), None):
        if outer is not None:
            _require_own(block, outer)
        problem = reduction_problem(block, loops, sizes)
        if problem is not None:
            raise VerifyError(problem[1])


def _with_init(
    stmt: Stmt, loops: Loops, outer: Block | None
) -> Iterator[tuple[Block, Loops, Block | None]]:
    """The blocks that have an init, the loops around each up to the block around it, and that."""
    if isinstance(stmt, For):
        loops = (*loops, stmt)
    if isinstance(stmt, Block):
        if stmt.init is not None:
            yield stmt, loops, outer
        loops, outer = (), stmt
    for child in child_stmts(stmt):
        yield from _with_init(child, loops, outer)


def _require_own(block: Block, outer: Block) -> None:
    around = {it.var for it in outer.iters}
    for it in block.iters:
        if it.kind is IterKind.REDUCE and variables(it.binding) & around:
            raise VerifyError(
                f"block {block.name!r} reduces over {it.var.name!r}, of which block {outer.name!r} "
                "around it runs one part at a time; its init would start each part anew"
            )


def reduction_problem(block: Block, loops: Loops, sizes: SizeRanges) -> tuple[str, str] | None:
    """The loop or block at fault and the reason why the init of `block`, inside `loops`, does not
    start its reduction once; None if it does."""
    if _inputs(block.init):
        late = late_input(block, reduction_loop(loops, block) or block)
        if late is not None:
            return block.name, late
    bindings = tuple([(it.binding, it.kind is IterKind.REDUCE) for it in block.iters])
    ranges = tuple([(loop.var, loop.extent) for loop in loops])
    repeated = _repeating(bindings, block.predicate, ranges, sizes)
    if repeated is None:
        return None
    return repeated.name, (
        f"loop {repeated.name!r} may repeat instances of block {block.name!r}, which would be "
        "added twice to one init"
    )


@lru_cache(maxsize=VERDICTS)
def _repeating(
    iters: tuple[tuple[Expr, bool], ...], predicate: Expr, ranges: Ranges, sizes: SizeRanges
) -> Var | None:
    """The first of the loops of a reduction of which the bindings of a block, each with whether it
    is reduced, do not tell the iteration; the block runs where `predicate` holds."""
    bindings = [binding for binding, _ in iters]
    reduced = frozenset[Var]().union(*[variables(e) for e, is_reduced in iters if is_reduced])
    first = next((n for n, (var, _) in enumerate(ranges) if var in reduced), len(ranges))
    inside, direct = ranges[first:], set(bindings)
    open_ = [v for v, extent in inside if v not in direct and int_value(extent) not in (0, 1)]
    if not open_:
        return None
    analyzer, extents = analyzer_of(sizes, dict(ranges)), dict(inside)
    if determines_all(bindings, open_, extents, analyzer):
        return None  # whatever the predicate says
    known, outside = analyzer.assuming(predicate), [var for var, _ in ranges[:first]]
    for var in open_:
        if not determines_all(bindings, (var,), extents, known):
            if not tells_apart(known, bindings, extents, outside=outside):
                return var
    return None


def late_input(block: Block, stmt: Stmt) -> str | None:
    """Why the init of `block` cannot run before `stmt`, in which the block is; None if it can."""
    read = _inputs(block.init)
    for other in blocks_below(stmt) if read else ():
        for buffer in read.intersection(written(other)):
            if other.name == block.name:
                return f"the init of block {block.name!r} reads {buffer.name!r}, its own result"
            return (
                f"block {block.name!r} starts from {buffer.name!r}, which block {other.name!r} "
                "would write after that"
            )
    return None


@lru_cache(maxsize=VERDICTS)
def _inputs(init: Stmt | None) -> frozenset[Buffer]:
    """The buffers that an init reads; inits are shared by all schedules of a block."""
    stmts = walk(init) if init is not None else ()
    return frozenset([n.buffer for s in stmts for e in stmt_exprs(s) for n in loads(e)])
