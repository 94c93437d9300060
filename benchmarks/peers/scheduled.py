"""Schedules out of schedule.library, for the rows that it has one for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedule import Schedule, tensorized_matmul
from tensorir import PrimFunc, Target

DOTS = {"int8_matmul": ("out", "u8i8.dot_16x4"), "bf16_matmul": ("product", "bf16.dot_16x2")}
"""By kind of row: the block that is a product, and the intrinsic for it."""


def library_schedule(kind: str, func: PrimFunc, target: Target) -> Schedule:
    """The schedule of the library for `func`, whose kind is one of LIBRARY_KINDS."""
    return LIBRARY_KINDS[kind](kind, func, target)


def _dot(kind: str, func: PrimFunc, target: Target) -> Schedule:
    block, intrinsic = DOTS[kind]
    sch = Schedule(func)
    tensorized_matmul(sch, block, intrinsic)
    return sch


LIBRARY_KINDS: Mapping[str, Callable[[str, PrimFunc, Target], Schedule]] = dict.fromkeys(DOTS, _dot)
