"""Schedules of schedule.library that the default is not: a convolution by another algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.peers.kinds import Sizes, channels_last
from benchmarks.peers.programs import winograd
from schedule import Schedule
from schedule.library import conv2d
from tensorir import Target


def library_schedule(kind: str, sizes: Sizes, target: Target) -> Schedule | None:
    """The schedule of the library for a row; None where it has none beside the default."""
    make = _LIBRARY.get(kind)
    return None if make is None else make(kind, sizes, target)


def _winograd(kind: str, sizes: Sizes, target: Target) -> Schedule | None:
    """The same convolution by another algorithm: fewer products, and larger errors."""
    if sizes["r"] != 3 or sizes["stride"] != 1 or sizes["groups"] != 1 or channels_last(sizes):
        return None
    sch = Schedule(winograd(sizes))
    conv2d(sch, target)
    return sch


_LIBRARY: Mapping[str, Callable[[str, Sizes, Target], Schedule | None]] = {"conv2d": _winograd}
