"""What a session begins with: the target as it is here, and a search that knows no trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from autotune.cost_model.make import draft_of, make_cost_model
from autotune.database.records import Workload
from autotune.knobs.space import OwnSpace
from autotune.measure.scoring import scheduled_program, wanted_features
from autotune.rules import default_candidates
from autotune.search import SearchState
from autotune.space import Candidate, Space
from backends import resolve, why_not_here
from tensorir import Numbers, PrimFunc, Target, TensorIRError


def measured_on(func: PrimFunc, target: str | Target, sizes: Numbers | None) -> Target:
    """The target as it is here; TensorIRError where trials cannot be measured."""
    missing = [v.name for v in func.size_vars if v.name not in (sizes or {})]
    if missing:
        raise TensorIRError(
            f"{func.name!r} has the symbolic size {missing[0]!r}: give a number for it in `sizes`"
        )
    why = why_not_here(target)
    if why is not None:
        raise TensorIRError(
            f"candidates for {str(target)!r} cannot be measured here: {why}; tune on that machine"
        )
    return resolve(target)


def make_state(
    space: Space, target: Target, seed: int, numerics: str, cost_model: str, workload: Workload
) -> SearchState:
    """What a search of that space knows before there are trials."""
    return SearchState(
        make_cost_model(cost_model, seed, draft_of(target)),
        wanted_features(target, workload.constants, numerics),
        defaults=(
            space.defaults
            if isinstance(space, OwnSpace)
            else Defaults(lambda: default_candidates(space, workload.constants))
        ),
        identify=scheduled_program,
    )


class Defaults(Sequence[Candidate]):
    """Candidates that are made when they are first asked for: their schedules are made to see that
    nothing refuses them, and the workers of a search start meanwhile."""

    def __init__(self, make: Callable[[], Sequence[Candidate]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[Candidate]:
        return self._make()

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, at: Any) -> Any:
        return self._made[at]
