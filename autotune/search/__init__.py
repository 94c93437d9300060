"""Search strategies: which candidates to measure next."""

from autotune.search.evolutionary import Evolution
from autotune.search.proposals import Proposals
from autotune.search.state import SearchState
from autotune.search.strategies import STRATEGIES, Propose, register_strategy, search_named

__all__ = [
    "STRATEGIES",
    "Evolution",
    "Proposals",
    "Propose",
    "SearchState",
    "register_strategy",
    "search_named",
]
