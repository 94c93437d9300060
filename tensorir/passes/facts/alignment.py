"""Strides of buffers whose rows are kept apart: the function attribute "align".

{"align": {buffer: [axis, factor, offset]}} makes the stride of an axis a multiple of `factor`,
plus `offset` elements, the smallest that is no less than what the inner axes take. Elements along
an axis that has none but axes of extent 1 behind it are adjacent: then it is the next axis further
out. A pass that adds an axis in front counts the axis on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, int_value


def row_distance(
    buffer: Buffer, align: Mapping[str, Sequence[int]]
) -> tuple[int, int, int] | None:
    """The axis whose stride is made a multiple, of what, and what is added; None for no axis."""
    wanted = align.get(buffer.name)
    if wanted is None or buffer.ndim <= wanted[0] + 1:
        return None
    axis, factor, offset = wanted
    while axis >= 0 and all(int_value(extent) == 1 for extent in buffer.shape[axis + 1 :]):
        axis -= 1
    return (axis, factor, offset) if axis >= 0 else None


def aligned_strides(buffer: Buffer, align: Mapping[str, Sequence[int]]) -> list[Expr] | None:
    """The distance in elements along each axis, and the whole size; None if rows are adjacent.

    The order is from the outermost: [size, stride of axis 0, ..., stride of the last axis].
    """
    wanted = row_distance(buffer, align)
    if wanted is None:
        return None
    axis, factor, offset = wanted
    strides: list[Expr] = [Const(1, dt.INDEX)]
    for place in reversed(range(buffer.ndim)):
        stride = strides[0]
        if place == axis:
            strides[0] = stride = stride + (offset - stride) % factor
        strides.insert(0, stride * buffer.shape[place])
    return strides
