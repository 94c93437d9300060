"""Operands read through a copy in panels: as many neighbouring columns as a register tile has.

The inner loops of a product then read memory in order, whatever the layout of the operand is. What
depends on constants only is packed once, ahead of all calls.

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", TOMS 2008.
"""

from __future__ import annotations

from autotune.rules.group import body_loads, output_store
from autotune.rules.nest import fuse_outer
from schedule import Schedule
from tensorir import Block, IterKind, int_value, variables

BLOCK = 16
"""Rows and columns that are transposed together: each cache line is used up while it is there."""


def panel_index(block: Block, operand: str) -> int | None:
    """The dimension of an operand that the columns of a block, its last spatial axis, index alone.

    None where there is no such dimension, or not the same for all loads of the operand.
    """
    column = [it.var for it in block.iters if it.kind is IterKind.SPATIAL][-1]
    places: set[int | None] = set()
    for load in (n for n in body_loads(block) if n.buffer.name == operand):
        own = [n for n, index in enumerate(load.indices) if column in variables(index)]
        places.add(own[0] if len(own) == 1 and load.indices[own[0]] is column else None)
    return places.pop() if len(places) == 1 else None


def pack_in_panels(sch: Schedule, block: str, operand: str, width: int, parallel: bool) -> None:
    """Make `block` read `operand` through a copy: panels of `width` columns, side by side.

    The columns are the last spatial axis of `block`. The copy is made ahead of the nest of
    `block`, by all threads if `parallel`.
    """
    node = sch.state.block(block)
    place = panel_index(node, operand)
    shape = next(n.buffer.shape for n in body_loads(node) if n.buffer.name == operand)
    assert place is not None
    columns = int_value(shape[place])
    copier = str(sch.cache_read(block, operand, "global"))
    store = output_store(sch.state.block(copier))
    assert store is not None
    names = [f"i{n}" for n in range(len(shape))]
    others = [name for name in names if name != names[place]]
    panel, lane = f"{names[place]} // {width}", f"{names[place]} % {width}"
    index_map = f"{', '.join(names)}: {', '.join([panel, *others, lane])}"
    pad = 0 if columns is None or columns % width else None
    sch.transform_layout(copier, store.buffer.name, index_map, pad)
    _finish(sch, copier, place == len(names) - 1, parallel)


def _finish(sch: Schedule, copier: str, contiguous: bool, parallel: bool) -> None:
    """The loops of the copy: whole vectors, or blocks of a few rows where it transposes."""
    *outer, lane = sch.get_loops(copier)
    row = outer.pop() if outer else None  # dimensions of one element have no loops
    if row is not None and not contiguous:
        block, inner_row = sch.split(row, [None, BLOCK])
        lanes, inner = sch.split(lane, [None, BLOCK])
        sch.reorder(lanes, block, inner_row, inner)
        sch.unroll(inner_row)
        lane = inner
    sch.vectorize(lane)
    if parallel and outer:
        sch.parallel(fuse_outer(sch, outer))
