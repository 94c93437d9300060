"""Taking conditions as known: truths, ranges and inequalities that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorir import dtype as dt
from tensorir.arith.bounds import plain_interval
from tensorir.arith.compare import difference
from tensorir.arith.facts import learn
from tensorir.arith.logic import negated, parts_of, reads_memory
from tensorir.arith.points import keep
from tensorir.expr import COMPARISONS, BinOp, Const, Expr, Not, all_of, conjuncts

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def assume(an: Analyzer, cond: Expr, memory: bool) -> None:
    """Add `cond` and what follows from it to what `an` knows.

    Parts that read memory are left out unless `memory`.
    """
    parts = parts_of(cond, "and")
    inverted = [negated(part.a) if isinstance(part, Not) else part for part in parts]
    plain = [part for part, said in zip(parts, inverted) if said is part or isinstance(said, Not)]
    _record(an, [cond, *plain], memory)
    for part, said in zip(parts, inverted):
        if said is not part and not isinstance(said, Not):
            assume(an, said, memory)
        elif isinstance(part, BinOp) and part.op in COMPARISONS:
            if memory or not reads_memory(part):
                _learn_comparison(an, part)


def unsaid(an: Analyzer, cond: Expr) -> Expr:
    """`cond` without the parts that follow from the ranges of their atoms.

    No bound gets better by these, and each would have all that was concluded forgotten.
    """
    parts = conjuncts(cond)
    left = [part for part in parts if not _said(an, part)]
    return cond if len(left) == len(parts) else all_of(*left)


def _said(an: Analyzer, part: Expr) -> bool:
    form = None if part.has_loads else an.margin(part)
    low = None if form is None else plain_interval(an, form)[0]
    return low is not None and low >= 0


def _record(an: Analyzer, conditions: list[Expr], memory: bool) -> None:
    facts = an.facts
    new = [
        cond for cond in dict.fromkeys(conditions)
        if not isinstance(cond, Const) and (memory or not reads_memory(cond))
        and not facts.truths.get(cond)
    ]  # fmt: skip
    for cond in new:
        facts.truths[cond] = True
        facts.truths[negated(cond)] = False
        keep(facts, ((cond, 1),), 1, 1)
    if new:  # what was concluded is forgotten once for all of them
        an.reset()


def _learn_comparison(an: Analyzer, e: BinOp) -> None:
    form = difference(an, e) if dt.is_int(e.a.dtype) else None
    if form is None:
        return
    if e.op in ("<", "<="):
        learn(an, form.shifted(-1) if e.op == "<" else form)
    elif e.op == "==":
        learn(an, form)
        learn(an, form.scaled(-1))
    else:
        low, high = an.interval(form)
        if low == 0:
            learn(an, form.shifted(-1))
        if high == 0:
            learn(an, form.scaled(-1).shifted(-1))
