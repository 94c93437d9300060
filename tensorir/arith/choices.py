"""What is known on the two sides of a choice, where that is worth its price.

A choice that occurs in the condition of another one and on both of its sides is looked at three
times, each time knowing something else; nested d deep, 3 ** d times. So the outer ones of such a
nest are looked at without the knowledge of the side.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from tensorir.expr import Expr, Select

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer

LOOKS = 3
"""So often one choice is looked at for the choices around it, at most."""

_MEMORY = 4096
_NONE: frozenset[Select] = frozenset()


def sides(an: Analyzer, e: Select) -> tuple[Analyzer, Analyzer]:
    """What is known on the side of `e` where its condition holds, and on the other."""
    if not is_looked_at(e):
        return an, an
    return an.branch(e.cond), an.branch(e.cond, False)


def is_looked_at(e: Select) -> bool:
    """Whether the sides of `e` are looked at, each with what is known there."""
    return _asked(e) <= LOOKS


@lru_cache(maxsize=_MEMORY)
def looks(e: Expr) -> int:
    """How often a choice in `e` is looked at, at most; 0 if there is none."""
    if isinstance(e, Select):
        asked = _asked(e)
        if asked <= LOOKS:
            return max(asked, 1)
    return max([looks(part) for part in e.operands], default=0)


def _asked(e: Select) -> int:
    """`looks` if the sides of `e` are looked at with the knowledge of the side."""
    inner = [_choices(part) for part in e.operands]
    shared = any([not a.isdisjoint(b) for a, b in combinations(inner, 2)])
    return sum(map(looks, e.operands)) if shared else max(map(looks, e.operands))


@lru_cache(maxsize=_MEMORY)
def _choices(e: Expr) -> frozenset[Select]:
    """The choices in `e`."""
    found = frozenset((e,)) if isinstance(e, Select) else _NONE
    return found.union(*map(_choices, e.operands)) if e.operands else found
