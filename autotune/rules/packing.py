"""Operands read through a copy in panels: as many neighbouring columns as a register tile has.

The inner loops of a product then read memory in order, whatever the layout of the operand is. What
depends on constants only is packed once, ahead of all calls.

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", TOMS 2008.
"""

from __future__ import annotations

from autotune.rules.group import body_loads, output_store, size
from schedule import Schedule
from tensorir import IterKind, Load, Var

BLOCK = 16
"""Rows and columns that are transposed together: each cache line is used up while it is there."""


def columns_index(load: Load, column: Var) -> int | None:
    """The dimension of a load that the column variable alone indexes."""
    places = [n for n, index in enumerate(load.indices) if index is column]
    return places[0] if len(places) == 1 else None


def pack_in_panels(sch: Schedule, block: str, operand: str, width: int, parallel: bool) -> None:
    """Make `block` read `operand` through a copy: panels of `width` columns, side by side.

    The columns are the last spatial axis of `block`. The copy is made ahead of the nest of
    `block`, by all threads if `parallel`.
    """
    node = sch.state.block(block)
    column = [it.var for it in node.iters if it.kind is IterKind.SPATIAL][-1]
    load = next(n for n in body_loads(node) if n.buffer.name == operand)
    place = columns_index(load, column)
    assert place is not None
    columns = size(load.buffer.shape[place])
    copier = str(sch.cache_read(block, operand, "global"))
    store = output_store(sch.state.block(copier))
    assert store is not None
    names = [f"i{n}" for n in range(len(load.indices))]
    others = [name for name in names if name != names[place]]
    panel, lane = f"{names[place]} // {width}", f"{names[place]} % {width}"
    index_map = f"{', '.join(names)}: {', '.join([panel, *others, lane])}"
    pad = 0 if columns % width else None
    sch.transform_layout(copier, store.buffer.name, index_map, pad)
    _finish(sch, copier, place == len(names) - 1, parallel)


def _finish(sch: Schedule, copier: str, contiguous: bool, parallel: bool) -> None:
    """The loops of the copy: whole vectors, or blocks of a few rows where it transposes."""
    *outer, row, lane = sch.get_loops(copier)
    if not contiguous:
        block, inner_row = sch.split(row, [None, BLOCK])
        lanes, inner = sch.split(lane, [None, BLOCK])
        sch.reorder(lanes, block, inner_row, inner)
        row, lane = block, inner
    sch.vectorize(lane)
    if parallel and outer:
        sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
