"""Search strategies: which candidates to measure next."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.search.policy import Policy
    from autotune.search.pool import Evolution
    from autotune.search.proposals import Proposals
    from autotune.search.state import SearchState
    from autotune.search.strategies import (
        DEFAULT_STRATEGY,
        STRATEGIES,
        Propose,
        register_strategy,
        search_named,
    )

__all__ = lazy_names(__name__)
