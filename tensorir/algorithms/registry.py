"""All algorithms by name: those that come along, and those that users registered."""

from __future__ import annotations

from functools import cache

from tensorir.algorithms.algorithm import Algorithm

ALGORITHMS: dict[str, Algorithm] = {}
"""Filled by `known_algorithms` when it is first asked for."""


def known_algorithms() -> dict[str, Algorithm]:
    """ALGORITHMS with those that come along."""
    _import_built_in()
    return ALGORITHMS


@cache
def _import_built_in() -> None:
    from tensorir.algorithms.dots.short_factors import BYTE_FACTORS, SHORT_FACTORS
    from tensorir.algorithms.extremes import EXTREMES
    from tensorir.algorithms.factored import FACTORED
    from tensorir.algorithms.im2col import IM2COL
    from tensorir.algorithms.joined import JOINED
    from tensorir.algorithms.narrow_sums import NARROW_SUMS
    from tensorir.algorithms.online import ONLINE
    from tensorir.algorithms.scans import SCANS
    from tensorir.algorithms.separate import SEPARATE
    from tensorir.algorithms.statistics import STATISTICS
    from tensorir.algorithms.sums_beside import SUMS_BESIDE
    from tensorir.algorithms.winograd import WINOGRAD

    found = (
        *EXTREMES, *STATISTICS, *JOINED, FACTORED, *SEPARATE, NARROW_SUMS, SHORT_FACTORS,
        BYTE_FACTORS, SUMS_BESIDE, IM2COL, *SCANS, *WINOGRAD, *ONLINE,
    )  # fmt: skip
    for algorithm in found:
        ALGORITHMS.setdefault(algorithm.name, algorithm)


def find_algorithm(name: str) -> Algorithm | None:
    """The algorithm of that name; None if there is none."""
    return ALGORITHMS.get(name) or known_algorithms().get(name)
