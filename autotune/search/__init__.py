"""Search strategies: which candidates to measure next.

A strategy is a function propose(space, state, count, rng) -> candidates.
"""

from collections.abc import Callable

from autotune.search import evolutionary, random
from autotune.search.evolutionary import Evolution
from autotune.search.state import SearchState
from autotune.space import Candidate
from tensorir import TensorIRError

STRATEGIES: dict[str, Callable[..., list[Candidate]]] = {
    "evolutionary": evolutionary.propose,
    "random": random.propose,
}
"""The strategies by name."""


def search_named(name: str) -> Callable[..., list[Candidate]]:
    """The strategy of that name; TensorIRError, listing them, if there is none."""
    if name not in STRATEGIES:
        raise TensorIRError(f"unknown strategy {name!r}; known are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


__all__ = ["STRATEGIES", "Evolution", "SearchState", "search_named"]
