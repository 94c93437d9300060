"""What statements touch of buffers, and the places that make up the parts of an Extern."""

from __future__ import annotations

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.stmt import Exchange, Extern, Part, Stmt, Store

Touch = tuple[Buffer, tuple[Expr, ...], bool]
"""A buffer, indices into it, and whether it is written there."""


def touched(stmt: Stmt) -> tuple[Touch, ...]:
    """What `stmt` itself touches of buffers, apart from the loads in its expressions.

    The indices of a part of an Extern run over it by variables of their own: `part_axes`.
    """
    if isinstance(stmt, (Store, Exchange)):
        return ((stmt.buffer, stmt.indices, True),)
    if isinstance(stmt, Extern):
        written = (False,) * len(stmt.inputs) + (True,) * len(stmt.outputs)
        parts = zip(stmt.parts, written)
        return tuple((part.buffer, part_indices(part), is_write) for part, is_write in parts)
    return ()


def part_axes(part: Part) -> dict[Var, Expr]:
    """Variables that run over a part, outermost first, with their extents.

    Their names have a dot, which no other variable has: the same dimension of the same buffer is
    always run over by the same variable. A part of a flat buffer is one run of elements.
    """
    shape = part.shape
    if len(shape) > len(part.indices):
        count: Expr = shape[0]
        for size in shape[1:]:
            count = count * size
        shape = (count,)
    return {Var(f"{part.buffer.name}.{part.lead + n}"): size for n, size in enumerate(shape)}


def part_indices(part: Part) -> tuple[Expr, ...]:
    """The indices of the elements of a part, in terms of its `part_axes`."""
    first = part.indices[part.lead :]
    return (*part.indices[: part.lead], *(a + v for a, v in zip(first, part_axes(part))))
