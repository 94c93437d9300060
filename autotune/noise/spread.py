"""How far the times of one thing are apart between visits, and how well such times order things."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

USUAL = 0.05
"""The spread that is assumed while too little is known."""

LEAST = 0.01
"""No machine is steadier than that between two visits that are minutes apart."""

ENOUGH = 6


def pooled_spread(series: Iterable[Sequence[float]]) -> float:
    """The standard deviation of log time between visits, of series of times of one thing each.

    It is taken from differences of visits that follow one another, by their median: drift of the
    machine and single bursts count little.
    """
    steps = [np.diff(np.log(np.asarray(times))) for times in series if len(times) > 1]
    found = np.abs(np.concatenate(steps)) if steps else np.empty(0)
    if len(found) < ENOUGH:
        return USUAL
    return max(1.4826 * float(np.median(found)) / 2**0.5, LEAST)


def centre(times: Sequence[float]) -> float:
    """The log of the time that the blocks speak for. They are few, for which NumPy takes long; a
    clock that ticks seldom may say that a block took no time."""
    logs = sorted([math.log(time) if time > 0 else -math.inf for time in times])
    return (logs[(len(logs) - 1) // 2] + logs[len(logs) // 2]) / 2


def error(count: int, spread: float) -> float:
    """The standard error of `centre` of so many visits; a median's is 1.25 times a mean's."""
    return spread * (1.25 if count > 2 else 1.0) / count**0.5
