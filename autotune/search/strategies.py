"""The search strategies by name.

A strategy is a function propose(space, state, count, rng) -> candidates: at most `count` that were
never measured, none where nothing is left. It depends on nothing but its arguments, so that the
same trials and seed give the same proposals in every process, and a search that was ended goes on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tensorir import TensorIRError

if TYPE_CHECKING:
    from autotune.search.state import SearchState
    from autotune.space import Candidate, Space


class Propose(Protocol):
    """What a strategy is."""

    def __call__(
        self, space: Space, state: SearchState, count: int, rng: random.Random, /
    ) -> list[Candidate]: ...


@dataclass(frozen=True)
class BuiltIn:
    """The `propose` of a file in this folder, which is imported when it is first called."""

    file: str

    def __call__(
        self, space: Space, state: SearchState, count: int, rng: random.Random, /
    ) -> list[Candidate]:
        found: list[Candidate] = import_module(f"autotune.search.{self.file}").propose(
            space, state, count, rng
        )
        return found


STRATEGIES: dict[str, Propose] = {
    name: BuiltIn(name)
    for name in (
        "policy", "evolutionary", "random", "grid", "genetic", "annealing", "descent",
    )
}  # fmt: skip
"""Strategies by name; each of these is a file."""

DEFAULT_STRATEGY = "policy"
"""On recorded times it needs the fewest trials, and it wastes the least time on slow ones."""


def register_strategy(name: str, propose: Propose) -> None:
    """Make a strategy known to `tune(strategy=name)`, the command line and simulations.

    propose  a function as at the head of this file; `autotune.search.Proposals` helps to write one

    Raises TensorIRError for a name that is taken or is none, and for what cannot be called.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise TensorIRError(f"a strategy's name is an identifier, such as 'greedy', not {name!r}")
    if name in STRATEGIES:
        raise TensorIRError(f"there is a strategy {name!r} already: choose another name")
    if not callable(propose):
        raise TensorIRError(
            f"strategy {name!r} is {propose!r}, not a function propose(space, state, count, rng)"
        )
    STRATEGIES[name] = propose


def search_named(name: str) -> Propose:
    """The strategy of that name; TensorIRError, listing them, if there is none."""
    if not isinstance(name, str) or name not in STRATEGIES:
        raise TensorIRError(
            f"unknown strategy {name!r}; known are {', '.join(STRATEGIES)}; "
            "register_strategy adds one"
        )
    return STRATEGIES[name]
