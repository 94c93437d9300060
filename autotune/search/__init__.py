"""Search strategies: which candidates to measure next."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.search.policy import Policy as Policy
    from autotune.search.pool import Evolution as Evolution
    from autotune.search.proposals import Proposals as Proposals
    from autotune.search.state import SearchState as SearchState
    from autotune.search.strategies import DEFAULT_STRATEGY as DEFAULT_STRATEGY
    from autotune.search.strategies import STRATEGIES as STRATEGIES
    from autotune.search.strategies import Propose as Propose
    from autotune.search.strategies import register_strategy as register_strategy
    from autotune.search.strategies import search_named as search_named

__all__ = lazy_names(
    __name__,
    {
        "autotune.search.policy": "Policy",
        "autotune.search.pool": "Evolution",
        "autotune.search.proposals": "Proposals",
        "autotune.search.state": "SearchState",
        "autotune.search.strategies": (
            "DEFAULT_STRATEGY STRATEGIES Propose register_strategy search_named"
        ),
    },
)
