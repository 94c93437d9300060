"""Kernels that go over the same elements are one: what one leaves in registers or caches the next
one uses, and it is launched once.

Stages whose results are all wanted, as those of a step of an optimizer, cannot be inlined, and
several sums of the same rows are no chain: each has a kernel of its own. Rows that no block of
threads keeps are read again in each pass of an algorithm, by kernels of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autotune.rules.gpu.move import MovePlan
from autotune.rules.group import attempt
from schedule import LoopRef, Schedule
from tensorir import Expr, For, Gpu, Seq, Stmt, blocks_below, seq, walk

if TYPE_CHECKING:
    from autotune.rules.alternatives import Start
    from autotune.rules.defaults import Chosen
    from autotune.rules.planned import PlannedSketch

NEAR = 4
"""How many kernels on one is looked for that runs with it: long sums are two kernels each."""


PASS = 2
"""Kernels of one pass over rows that are cut: one for the parts, and one that adds these up."""


def in_fewer_kernels(
    planned: Callable[[Start], Chosen | None], start: Start
) -> tuple[Start, PlannedSketch | None]:
    """A program with the algorithms that are better wherever rows are kept, or its definition, if
    that takes less time where plans of theirs have several passes; with the sketch of it."""
    made = planned(start)
    if made is None:
        return start, None
    passes = max((p.kernels for p in made.sketch.plans if isinstance(p, MovePlan)), default=0)
    if passes <= PASS:
        return made
    definition = start.schedule.copy()
    definition.undo(len(definition.trace))
    other = planned(replace(start, name="", schedule=definition, refused={}))
    if other is None:
        return made
    theirs, own = _time(other.sketch), _time(made.sketch)
    return other if theirs is not None and own is not None and theirs < own else made


def _time(sketch: PlannedSketch) -> float | None:
    """Cycles of all plans; None where one cannot tell."""
    times = [plan.estimate() for plan in sketch.plans]
    return None if None in times else sum(time or 0.0 for time in times)


def run_together(sch: Schedule, device: Gpu) -> dict[str, str]:
    """Merge kernels of as many blocks and threads each that are near each other, as far inside as
    primitives allow it, where the estimate says that one takes less time. Returns what is refused,
    as where a block needs what others make, and why."""
    refused, at = dict[str, str](), 0
    while at < len(kernels := _kernels(sch)):
        others = range(at + 1, min(at + 1 + NEAR, len(kernels)))
        at += not any(_join(sch, device, kernels, at, other, refused) for other in others)
    return refused


def _kernels(sch: Schedule) -> tuple[Stmt, ...]:
    return sch.func.body.stmts if isinstance(sch.func.body, Seq) else ()


def _join(
    sch: Schedule, gpu: Gpu, kernels: Sequence[Stmt], at: int, other: int, refused: dict[str, str]
) -> bool:
    """Whether two kernels are one now."""
    first, second, start = kernels[at], kernels[other], len(sch.trace)
    if not isinstance(first, For) or not isinstance(second, For) or not _blocks(first, second):
        return False
    what = f"{first.name} together with {second.name}"
    ahead = [blocks_below(kernel)[0].name for kernel in (second, kernels[at + 1])]
    if other == at + 1 or attempt(refused, what, sch.run_before, *ahead):
        made = _merged(sch, first, second, what, refused)
        if made is not None and _cycles(sch, gpu, made) < _cycles(sch, gpu, first, second):
            return True
        if made is not None:
            refused[what] = "one kernel takes longer"
    sch.undo(len(sch.trace) - start)
    return False


def _merged(
    sch: Schedule, first: For, second: For, what: str, refused: dict[str, str]
) -> For | None:
    """The kernel that two become which run alike; None where blocks of the one need what several of
    the other make."""
    blocks, made = _blocks(first, second), list[LoopRef]()
    for a, b in _alike(first, second):
        own = what if len(made) < blocks else f"{what}, at {b.name}"
        if not attempt(refused, own, lambda a, b: made.append(sch.merge(a, b)), a.name, b.name):
            break
    return sch.state.loop(made[0]) if len(made) >= blocks else None


def _blocks(first: For, second: For) -> int:
    """Along how many axes two kernels have blocks; 0 where these, or threads, are not as many."""
    axes = _axes(first)
    return sum(axis.startswith("block") for axis in axes) if axes == _axes(second) else 0


def _axes(kernel: For) -> dict[str, Expr]:
    """How many blocks, and threads of a block, there are along each axis."""
    return {s.thread: s.extent for s in walk(kernel) if isinstance(s, For) and s.thread}


def _alike(first: For, second: For) -> Iterator[tuple[For, For]]:
    """Loops of the one and of the other kernel, from the outermost on, that run alike."""
    stmts: tuple[Stmt, Stmt] = first, second
    while True:
        a, b = stmts
        if not isinstance(a, For) or not isinstance(b, For) or _runs(a) != _runs(b):
            return
        yield a, b
        stmts = a.body, b.body


def _runs(loop: For) -> tuple[object, ...]:
    return loop.kind, loop.thread, loop.extent, loop.annotations


def _cycles(sch: Schedule, gpu: Gpu, *kernels: For) -> float:
    from autotune.gpu.count import works_of
    from autotune.gpu.work import cycles

    return cycles(works_of(replace(sch.func, body=seq(*kernels)), gpu), gpu)
