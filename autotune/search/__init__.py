"""Search strategies: which candidates to measure next."""

from autotune.search.evolutionary import Evolution
from autotune.search.state import SearchState
from autotune.search.strategies import STRATEGIES, search_named

__all__ = ["STRATEGIES", "Evolution", "SearchState", "search_named"]
