"""What cannot be proved in range any more is refused.

Rules of arithmetic cannot decide everything. Where few values can break an access they are all
tried (tensorir/arith/exhaustive.py); what is left is refused, so that no schedule reads beyond a
buffer.
"""

from __future__ import annotations

from schedule.checks.changed import Changed
from schedule.errors import Illegal
from schedule.state import State
from tensorir import (
    Block,
    Const,
    PrimFunc,
    Var,
    VerifyError,
    check_ranges,
    conjuncts,
    connected,
    few_values,
    variables,
)


def unprovable(changed: Changed) -> Illegal | None:
    """Why an access of the new program cannot be proved to stay in its buffer; None if all can.

    Where extents are numbers and few, the verifier tries all values, so it needs no help, unless
    a block runs at places that are read from memory, which lie in a range of their own. With
    symbolic ones the arithmetic has limits, as in a part of a part of a loop, which runs
    max(n - 3, 0) times; so it has in long chains of splits and fuses of large loops, and in what a
    block knows of the predicate of the block around it. A program that could not be verified
    before is none the worse.
    """
    after = changed.after
    unsure = after.has_nested_blocks or after.func.size_ranges
    if not unsure and not any([_hard_binding(after, block) for block in changed.new]):
        return None
    problem = _problem(after.func)
    if problem is None or _problem(changed.before.func) is not None:
        return None
    return Illegal(
        "",
        f"afterwards it cannot be proved that {problem}",
        "take another factor or another order of steps",
    )


def _hard_binding(state: State, block: Block) -> bool:
    """Whether a binding reads memory, or needs its predicate and has too many values to try them
    all."""
    if any([it.binding.has_loads for it in block.iters]):
        return True
    if isinstance(block.predicate, Const):
        return False
    extents = {loop.var: loop.extent for loop in state.loops_around(block.name)}
    conditions = conjuncts(block.predicate)
    for it in block.iters:
        if isinstance(it.binding, (Const, Var)):
            continue
        if not few_values(connected(variables(it.binding), conditions), extents):
            return True
    return False


def _problem(func: PrimFunc) -> str | None:
    try:
        check_ranges(func)
    except VerifyError as error:
        return str(error)
    return None
