"""Answers that all analyzers share who know the same of the variables of an expression.

Each step of a schedule asks about loops of its own, most of which are those of the step before. Who
knows nothing but the ranges of variables gives one answer wherever these are the same, so that it
is kept by them, whatever else is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tensorir.expr import Expr

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

Answer = TypeVar("Answer")

ANSWERS = 16_384
"""Answers that are kept; a default schedule asks for some hundred again and again."""

_answers: dict[tuple[Any, ...], Any] = {}


def shared(an: Analyzer, question: Callable[[Analyzer, Expr], Answer], e: Expr) -> Answer:
    """`question(an, e)`, which `e` and what `an` knows of its variables decide, and is not None.

    A search for a bound makes do with less, and what a condition says may bear on any expression:
    answers are then the analyzer's own. Of what has no parts they are found at once.
    """
    if not e.operands or an.searching or not an.knows_ranges_alone:
        return question(an, e)
    facts, variables = an.facts, e.variables
    key = (question, e, *map(facts.ranges.get, variables), *map(facts.extents.get, variables))
    found: Answer | None = _answers.get(key)
    if found is None:
        found = question(an, e)
        if len(_answers) >= ANSWERS:
            forget()
        _answers[key] = found
    return found


def kept() -> int:
    """How many answers are kept."""
    return len(_answers)


forget = _answers.clear
"""Keep none of the answers so far."""
