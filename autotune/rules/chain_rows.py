"""Rows: the loops that stages of a chain share, of any rank and order, and how they come first.

What a chain is does not depend on how it is written: intermediates are laid out row by row, their
columns are one axis where they follow each other in memory, and the loops of the last stage, whose
result has the layout that is asked for, are cut and put in the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from autotune.rules.followers import stored_at
from autotune.rules.group import stores_of
from schedule import LoopRef, Schedule, library
from tensorir import Var, body_loads, int_value, written


@dataclass(frozen=True)
class RowOrder:
    """How a program is put in rows, as data: the last stage and those that go along with its rows.

    members  these stages, in program order; where there is a copy, it is the last one
    apart    the scope in which the last stage is computed, to be copied to its place; "" if it is
             not
    cuts     positions of its loops, and the factors that they are split by first
    rows     positions of the loops of rows, after that, in their order
    columns  those of its other loops of data
    joined   how many of the last of these become one
    turned   whether neighbours in the result are of different rows
    layouts  index maps for what the others store
    kept     the index map of what the last stage stores, if that is in rows and a stage that is no
             member takes it to its place; "" if not
    """

    last: str
    members: tuple[str, ...]
    apart: str
    cuts: tuple[tuple[int, tuple[int, ...]], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    joined: int
    turned: bool
    layouts: tuple[tuple[str, str], ...]
    kept: str = ""


class Stage(NamedTuple):
    """A stage in rows: `width` elements of each, `columns` are the variables that tell them.

    tiled   whether these are one loop, of neighbours in what is stored, the same in all rows
    turned  whether neighbours there are of different rows
    """

    block: str
    width: int
    columns: tuple[Var, ...]
    tiled: bool
    turned: bool = False


class InRows(NamedTuple):
    """A program in rows, the stages in program order, and how many rows each loop of them has."""

    order: RowOrder
    sch: Schedule
    stages: tuple[Stage, ...]
    sizes: tuple[int, ...]


def put_in_rows(sch: Schedule, order: RowOrder) -> list[LoopRef]:
    """Do what `order` says; returns the loops of rows, the outermost ones of the last stage."""
    end = order.members[-1]
    if order.kept:
        stored_apart(sch, order.last)
        laid_out(sch, order.last, order.kept)
    if order.apart:
        sch.cache_write(order.last, 0, order.apart)
    for place, factors in reversed(order.cuts):
        sch.split(sch.get_loops(end)[place], [None, *factors])
    for stage, index_map in order.layouts:
        laid_out(sch, stage, index_map)
    loops = sch.get_loops(end)
    last = max((*order.rows, *order.columns), default=-1) + 1
    units = [at for at in range(last) if at not in order.rows + order.columns]
    places = [*order.rows, *units, *order.columns]
    if places != sorted(places):
        sch.reorder(*[loops[at] for at in places])
    if order.joined > 1:
        sch.fuse(*[loops[at] for at in order.columns[-order.joined :]])
    return [loops[at] for at in order.rows]


def stored_apart(sch: Schedule, last: str) -> None:
    """Let the last stage store in a buffer of its own, with a dimension for each of its variables
    where the result has parts of them, and another one take that to its place."""
    stored = stored_at(sch.state.block(last)) or ()
    if all(isinstance(i, Var) or int_value(i) is not None for i in stored):
        sch.cache_write(last, 0, "global")
    else:
        sch.reindex(last, written(sch.state.block(last))[0].name)


def laid_out(sch: Schedule, stage: str, index_map: str) -> Schedule:
    sch.transform_layout(stage, written(sch.state.block(stage))[0].name, index_map)
    return sch


def cut_loops(sch: Schedule, end: str, last: str) -> list[tuple[int, tuple[int, ...]]]:
    """Split the loops of `end` whose variables, or those of `last` that it copies, are read in
    parts; returns which, and how."""
    node, made, found = sch.state.block(end), sch.state.block(last), []
    names = [loop.name for loop in sch.state.loops_around(end)]
    same = dict(zip(stored_at(node) or (), stored_at(made) or ()))
    parts, _ = library.read_by(made, [*stores_of(made), *body_loads(made)])
    for it in node.spatial:
        var = same.get(it.var, it.var)
        mine = [part.digit for part in parts if made.iters[part.digit.place].var is var]
        if mine[1:] and isinstance(it.binding, Var):
            factors = tuple(digit.extent or 1 for digit in mine[1:])
            found.append((names.index(it.binding.name), factors))
    for place, factors in reversed(found):
        sch.split(LoopRef(names[place]), [None, *factors])
    return found
