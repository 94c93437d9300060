"""Schedules out of schedule.library, for the rows that it has another one for than the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.peers.kinds import Sizes
from benchmarks.peers.programs import prim_func, winograd
from schedule import Schedule, tensorized_matmul
from schedule.library import conv2d
from tensorir import Target

DOTS = {"int8_matmul": ("out", "u8i8.dot_16x4"), "bf16_matmul": ("product", "bf16.dot_16x2")}
"""By kind of row: the block that is a product, and the intrinsic for it."""


def library_schedule(kind: str, sizes: Sizes, target: Target) -> Schedule | None:
    """The schedule of the library for a row; None where it has none beside the default."""
    make = _LIBRARY.get(kind)
    return None if make is None else make(kind, sizes, target)


def _dot(kind: str, sizes: Sizes, target: Target) -> Schedule:
    block, intrinsic = DOTS[kind]
    sch = Schedule(prim_func(kind, sizes))
    tensorized_matmul(sch, block, intrinsic)
    return sch


def _winograd(kind: str, sizes: Sizes, target: Target) -> Schedule | None:
    """The same convolution by another algorithm: fewer products, and larger errors."""
    if sizes["r"] != 3 or sizes["stride"] != 1 or sizes["groups"] != 1:
        return None
    sch = Schedule(winograd(sizes))
    conv2d(sch, target)
    return sch


_LIBRARY: Mapping[str, Callable[[str, Sizes, Target], Schedule | None]] = {
    **dict.fromkeys(DOTS, _dot),
    "conv2d": _winograd,
}
