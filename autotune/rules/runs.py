"""Reductions over several axes that are one run through memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autotune.rules.group import stride_in
from autotune.rules.nest import loops_by_variable
from schedule import LoopRef, Schedule
from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Expr,
    IterKind,
    IterVar,
    Load,
    Var,
    body_loads,
    int_value,
    numbers_of,
    stmt_exprs,
    substitute,
    variables,
    walk,
    walk_exprs,
)


def contiguous_run(block: Block) -> list[IterVar]:
    """The last reduction variables of a block along which each of its loads moves by one element,
    or stays where it is: through all of them as through one. Where memory says what a load reads,
    that counts for nothing.

    Empty where the last variable alone moves a load by another step, or no load.
    """
    reduce = [it for it in block.reduced if int_value(it.extent) != 1] or block.reduced[-1:]
    reads = placed_loads(block)
    if not reduce:
        return []
    steps = [stride_in(load, reduce[-1].var, block) for load in reads]
    if 1 not in steps or any(step not in (0, 1) for step in steps):
        return []
    found = [reduce[-1]]
    for it in reversed(reduce[:-1]):
        length = run_length(found)
        wanted = [step and length for step in steps]
        if not length or wanted != [stride_in(load, it.var, block) for load in reads]:
            break
        found.insert(0, it)
    return found if run_length(found) and _is_linear(block, found) else found[-1:]


def placed_loads(block: Block) -> list[Load]:
    """The loads of a block whose place no memory says."""
    return [load for load in body_loads(block) if not any(i.has_loads for i in load.indices)]


def run_length(run: Sequence[IterVar]) -> int | None:
    """The terms of a run; None where there is no run, or its terms are symbolic."""
    sizes = [int_value(it.extent) for it in run]
    return None if None in sizes or not run else prod(size or 0 for size in sizes)


def fuse_run(sch: Schedule, block: str, run: Sequence[str]) -> LoopRef:
    """One loop over the variables of a run, which are bound to loops next to each other but for
    those of one term: these go along."""
    names, around = loops_by_variable(sch, block), sch.get_loops(block)
    iters = [it for it in sch.state.block(block).iters if it.var.name in names]
    sums = [it for it in iters if it.kind is IterKind.REDUCE]
    single = {names[it.var.name] for it in sums if int_value(it.extent) == 1}
    places = [n for n, loop in enumerate(around) if loop in {names[var] for var in run}]
    first, last = min(places), max(places)
    while first and around[first - 1] in single:
        first -= 1
    while last + 1 < len(around) and around[last + 1] in single:
        last += 1
    return sch.fuse(*around[first : last + 1])


def _is_linear(block: Block, run: Sequence[IterVar]) -> bool:
    """Whether a block uses the variables only for addresses and numbers that grow by one step: as
    one loop, they need no division."""
    if len(run) == 1:
        return True
    rest: Expr = Var("run")
    values: dict[Var, Expr] = {}
    for it in reversed(run[1:]):
        values[it.var] = rest % it.extent
        rest = rest // it.extent
    values[run[0].var] = rest
    analyzer = Analyzer()
    numbers = [n for stmt in walk(block.body) for e in stmt_exprs(stmt) for n in numbers_of(e)]
    mine = [n for n in numbers if not variables(n).isdisjoint(values)]
    return not any(_divides(analyzer.simplify(substitute(n, values))) for n in mine)


def _divides(e: Expr) -> bool:
    return any(isinstance(n, BinOp) and n.op in ("//", "%") for n in walk_exprs(e))
