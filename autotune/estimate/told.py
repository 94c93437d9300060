"""What formulas have told: a search asks for the cycles of the same values again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.choices import values_of
from autotune.space import Infeasible
from autotune.streams import Column

if TYPE_CHECKING:
    from autotune.rules.plan import Plan, Values

FEW = 4096
"""Values of all choices of a plan together that are asked for at once, with the first of them: a
column of all takes less than those of the first hundred, some at a time."""


class Told:
    """The cycles of values of a plan's choices, of each asked for once."""

    def __init__(self, plan: Plan, constants: Collection[str]) -> None:
        self._plan, self._constants = plan, constants
        self._names = tuple(choice.name for choice in plan.choices)
        self._known: dict[tuple[Any, ...], float] = {}

    def columns(self, rows: Sequence[Values]) -> Column | None:
        """As those of the plan, which may have no formula, for values of whatever choices there are
        besides; `...` where a choice is not made, as it was before there was that choice."""
        asked = [tuple([values[name] for name in self._names]) for values in rows]
        new = [own for own in dict.fromkeys(asked) if own not in self._known]
        if new:
            also = () if self._known else self._few()
            new = list(dict.fromkeys([*new, *also]))
            named = [{k: v for k, v in zip(self._names, own) if v is not ...} for own in new]
            column = self._plan.columns(named, self._constants)
            if column is None:
                return None
            self._known.update(zip(new, column.tolist()))
        return np.array([self._known[own] for own in asked])

    def _few(self) -> Iterator[tuple[Any, ...]]:
        """All that are feasible, where they are few."""
        choices = self._plan.choices
        if prod(choice.size() for choice in choices) > FEW:
            return
        for own in product(*map(values_of, choices)):
            with suppress(Infeasible):
                if self._plan.feasible(dict(zip(self._names, own))):
                    yield own
