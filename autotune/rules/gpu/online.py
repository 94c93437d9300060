"""Scans over blocks of terms: sums weighted by a softmax, whose scores are in no memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autotune.rules.gpu.move import CLOSE, MovePlan, Options, bound_works
from autotune.rules.group import Group
from autotune.rules.plan import Plan
from schedule import Schedule, ScheduleError, library
from tensorir import Analyzer, ForKind, Gpu, IterKind, accesses, slope, variables

if TYPE_CHECKING:
    from autotune.gpu.work import Work

ROWS = (1, 2, 4, 8)
THREADS = ((8, 8), (16, 8), (32, 8), (8, 16), (16, 16))
LIKELY = ((4, (32, 8)), (4, (16, 8)), (2, (8, 8)))
"""Rows of a thread, and threads down and across: the largest tiles first, which read the least."""


@dataclass(frozen=True, eq=False)
class OnlinePlan(MovePlan):
    """All stages of one scan in one kernel."""

    tells = True

    def _time(self, sch: Schedule) -> float:
        """With products as compilers make them: an operand that is read for one of the sums of a
        thread is in a register for the others, neighbours are read at once, and a multiplication
        with its addition is one instruction."""
        from autotune.gpu.work import cycles

        return cycles(self._works(sch), self.gpu)

    def _settles(self, sch: Schedule) -> bool:
        """Points that follow have smaller tiles: they compute the same and read no less, so that
        they gain by more blocks alone, where multiprocessors wait or stand idle."""
        from autotune.gpu.work import is_balanced

        works = self._works(sch)
        return len(works) == 1 and is_balanced(works[0], self.gpu, CLOSE)

    def _works(self, sch: Schedule) -> Sequence[Work]:
        works = bound_works(sch.func, self.gpu, self.base.func)
        if len(works) != 1:
            return works
        (work,), (terms, again) = works, _products(sch)
        mended = replace(
            work,
            float32=max(0.0, work.float32 - terms),
            wavefronts=max(0.0, work.wavefronts - again),
            free=max(0.0, work.free - again),
        )
        return [mended]


def _products(sch: Schedule) -> tuple[float, float]:
    """The terms of sums that are written out, by warps, and the reads of shared memory for them
    that find what they want in registers."""
    terms, again = 0.0, 0.0
    for name in sch.get_blocks():
        block, loops = sch.state.block(name), sch.state.loops_around(name)
        written_out = {f.var: f.const_extent or 1 for f in loops if f.kind is ForKind.UNROLLED}
        if not block.is_reduction or not written_out:
            continue
        each = prod(f.const_extent or 1 for f in loops) / Gpu.warp
        terms += each
        for access in accesses(block):
            if access.is_write or access.buffer.scope != "shared":
                continue
            *_, last = indices = access.in_loops()
            used = {v for index in indices for v in variables(index)}
            once = prod(extent for var, extent in written_out.items() if var not in used)
            near = any(slope(last, var, Analyzer()) == 1 for var in written_out)
            again += each * (1 - 1 / (once * (Gpu.access_words if near else 1)))
    return terms, again


def online_stages(sch: Schedule, gpu: Gpu) -> Sequence[Plan]:
    """A plan for each scan of blocks of terms by what reads its last states."""
    found: list[Plan] = []
    taken: set[str] = set()
    for name in map(str, sch.get_blocks()):
        if name in taken or not _reads_sums_of_steps(sch, name):
            continue
        trial = sch.copy()
        rows, threads = LIKELY[0]
        try:
            made = library.gpu.online(trial, name, rows=rows, threads=threads)
        except ScheduleError:  # another scan
            continue
        left = trial.get_blocks()
        members = tuple(n for n in sch.get_blocks() if n in made.stages or n not in left)
        taken.update(members)
        plan = _plan(sch, members, gpu)
        if plan.works:
            found.append(plan)
    return found


def _reads_sums_of_steps(sch: Schedule, name: str) -> bool:
    """Whether a block is elementwise, and reads states of a scan whose steps have sums."""
    if sch.state.block(name).is_reduction:
        return False
    makers = [sch.state.block(maker) for maker in sch.get_producers(name)]
    steps = [b for b in makers if any(it.kind is IterKind.OPAQUE for it in b.iters)]
    if not steps or any(it.kind is IterKind.OPAQUE for it in sch.state.block(name).iters):
        return False
    around = sch.get_loops(steps[0].name)[0]
    return any(sch.state.block(n).is_reduction for n in sch.get_child_blocks(around))


def _plan(sch: Schedule, members: tuple[str, ...], gpu: Gpu) -> OnlinePlan:
    last = members[-1]
    options: Options = {"rows": ROWS, "threads": THREADS}
    likely = [{"rows": rows, "threads": threads} for rows, threads in LIKELY]

    def move(sch: Schedule, group: Group, rows: int, threads: tuple[int, int]) -> None:
        library.gpu.online(sch, group.block, rows=rows, threads=threads)

    return OnlinePlan(
        "online", Group(last), gpu, sch.copy(), move, options, likely, "reassociated", members,
        close=CLOSE,
    )  # fmt: skip
