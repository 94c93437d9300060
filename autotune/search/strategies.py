"""The search strategies by name.

A strategy is a function propose(space, state, count, rng) -> candidates.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.search import evolutionary, random
from autotune.space import Candidate
from tensorir import TensorIRError

STRATEGIES: dict[str, Callable[..., list[Candidate]]] = {
    "evolutionary": evolutionary.propose,
    "random": random.propose,
}


def search_named(name: str) -> Callable[..., list[Candidate]]:
    """The strategy of that name; TensorIRError, listing them, if there is none."""
    if not isinstance(name, str) or name not in STRATEGIES:
        raise TensorIRError(f"unknown strategy {name!r}; known are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
