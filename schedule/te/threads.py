"""Stages in shared memory that are computed inside of loops over threads, as TVM's users ask.

All threads of a block fill such memory together, so the loops over them go inside of the serial
loops down to the place. That is asked before anything is bound: the requests of the stages say
which loops will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.analysis.uses import written
from schedule.rewrite.placement import child_of, names_in
from schedule.state import LoopRef
from schedule.te.kinds import of_loops
from tensorir import BLOCK_AXES

if TYPE_CHECKING:
    from schedule.te.maker import StageMaker
    from schedule.te.stage import Stage


def outside_of_threads(maker: StageMaker, stage: Stage, loop: LoopRef) -> LoopRef:
    """The loop to compute `stage` in, asked for at `loop`, once no threads are around it."""
    if _own_memory(maker, stage):
        return loop
    sch, threads = maker.sch, loops_of_threads(maker)
    chain = [*map(LoopRef, [f.name for f in sch.state.loops_outside(loop)]), loop]
    first = next((n for n, name in enumerate(chain) if name in threads), None)
    if first is None:
        return loop
    steps = [name for name in chain[first:] if name not in threads]
    if not steps:
        return chain[first - 1] if first else sch.add_unit_loop(chain[0])
    inside = {name for name in names_in(sch.state.loop(steps[0]))}
    found = [_alone(maker, name, inside) for name in reversed(chain[first:]) if name in threads]
    sch.reorder(*steps, *reversed(found))
    return loop


def _own_memory(maker: StageMaker, stage: Stage) -> bool:
    """Whether each thread has the tensor of a stage for itself."""
    scopes = {b.scope for b in written(maker.sch.state.block(maker.blocks[stage]))}
    asked = [kind.args[0] for kind in stage.kinds.values() if kind.name == "set_scope"]
    return {*(asked or scopes)} == {"local"}


def loops_of_threads(maker: StageMaker) -> set[LoopRef]:
    """The loops of stages, as far as they are made, that are going to be bound to threads."""
    found: set[LoopRef] = set()
    for stage, loops in maker.loops.items():
        for axis, kind in of_loops(stage.nest, stage.kinds).items():
            loop = loops.get(axis)
            if kind.name == "bind" and kind.args[0] not in BLOCK_AXES and loop is not None:
                found.update([loop, *maker.copies.get(loop, ())])
    return found


def _alone(maker: StageMaker, loop: LoopRef, inside: set[str]) -> LoopRef:
    """A loop around the blocks `inside` and nothing else, cut off the one that there is."""
    sch = maker.sch
    parts = child_of(sch.state.loop(loop))
    place = next(n for n, part in enumerate(parts) if inside <= names_in(part))
    for at in (place + 1, place):
        if 0 < at < len(parts):
            before = sorted(names_in(parts[at - 1]), key=sch.state.block_names().index)
            pieces = sch.fission(loop, before[-1])
            mine = next(p for p in pieces if inside <= names_in(sch.state.loop(p)))
            _renamed(maker, loop, pieces)
            loop = mine
            parts = child_of(sch.state.loop(loop))
            place = next(n for n, part in enumerate(parts) if inside <= names_in(part))
    return loop


def _renamed(maker: StageMaker, old: LoopRef, pieces: tuple[LoopRef, ...]) -> None:
    """Each stage goes on with the piece that is around its block; what is asked of it is asked of
    the others as well."""
    others = maker.copies.pop(old, ())
    for stage, loops in maker.loops.items():
        around = maker.sch.get_loops(maker.blocks[stage])
        for axis, loop in loops.items():
            if loop == old:
                own = next((p for p in pieces if p in around), pieces[0])
                loops[axis] = own
                maker.copies[own] = (*[p for p in pieces if p != own], *others)
