"""Schedules that the default is not: a convolution by another algorithm."""

from __future__ import annotations

from autotune import winograd_schedule
from benchmarks.peers.kinds import KINDS, Sizes
from benchmarks.peers.programs import prim_func
from schedule import Schedule
from tensorir import Target


def library_schedule(kind: str, sizes: Sizes, target: Target) -> Schedule | None:
    """The schedule of another algorithm for a row, with fewer products and larger errors; None
    where there is none."""
    if kind != "conv2d":
        return None
    return winograd_schedule(prim_func(kind, sizes), target, KINDS[kind].constants)
