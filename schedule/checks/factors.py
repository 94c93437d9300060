"""What split and partition demand of their factors."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import require
from tensorir import For


def known_factors(node: For, factors: Sequence[int | None]) -> list[int]:
    """The factors that are numbers; refuses none at all, two unknown ones, bad numbers, and
    numbers alone where the loop has no iterations."""
    where = node.name
    require(len(factors) > 0, where, "there are no factors")
    known = [f for f in factors if f is not None]
    require(len(known) >= len(factors) - 1, where, f"{list(factors)} has more than one None")
    for factor in known:
        ok = isinstance(factor, int) and not isinstance(factor, bool) and factor > 0
        require(ok, where, f"factor {factor!r} is not a positive integer")
    require(
        # whatever is said of such iterations, only the init of a sum without terms is to run
        len(known) < len(factors) or node.const_extent != 0,
        where,
        f"loop {where!r} has no iterations, and with factors {known} it would have some",
        "give None as one factor to have it computed",
    )
    return known
