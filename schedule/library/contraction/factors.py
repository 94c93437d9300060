"""The factors of products: which are multiplied first, so that a tile shares what they give."""

from __future__ import annotations

from schedule.library.contraction.axes import Contraction, Factors
from schedule.schedule import Schedule
from tensorir import dtype

Groups = tuple[tuple[int, ...], ...]
"""Positions of factors."""


def groupings(c: Contraction, bitwise: bool = False) -> tuple[int | None, ...]:
    """The spatial axes along which products can be taken apart, one for each way to do it, after
    None, as they are written: all there is where `bitwise` equal floats are asked for."""
    if bitwise and any(dtype.is_float(product.dtype) for product in c.products):
        return (None,)
    ways: dict[tuple[Groups, ...], int] = {}
    for axis in c.spatial:
        parts = tuple(_parts(c, product, axis) for product in c.products)
        if parts != tuple(product.parts for product in c.products):
            ways.setdefault(parts, axis)
    return (None, *ways.values())


def shared_parts(c: Contraction, apart: int | None) -> list[tuple[int, ...]]:
    """The operands that each product within another one reads, products being taken apart along an
    axis, or None for as they are written."""
    return [
        tuple({operand for n in part for operand in product.reads[n]})
        for product in c.products
        for part in _parts(c, product, apart)
    ]


def regroup(sch: Schedule, c: Contraction, apart: int | None) -> None:
    """Take the products of a contraction apart along an axis. ScheduleError if refused."""
    for product in reversed(c.products):  # those within another one before it
        groups = () if apart is None else groups_of(c, product, apart)
        if groups:
            sch.regroup(c.block, groups, product.place)


def _parts(c: Contraction, product: Factors, apart: int | None) -> Groups:
    """The products within one, as it is taken apart."""
    groups = () if apart is None else groups_of(c, product, apart)
    parts = [group[:size] for group in groups for size in range(2, len(group) + 1)]
    return tuple(parts) if groups else product.parts


def groups_of(c: Contraction, product: Factors, axis: int) -> Groups:
    """The positions of factors that move along an axis and of those that do not, whichever is
    written first; none where there is one kind only."""
    moving: dict[bool, list[int]] = {}
    for n, operands in enumerate(product.reads):
        moves = any(c.operands[operand].strides[axis] != 0 for operand in operands)
        moving.setdefault(moves, []).append(n)
    return tuple(map(tuple, moving.values())) if len(moving) > 1 else ()
