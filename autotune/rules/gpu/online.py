"""Scans over blocks of terms: sums weighted by a softmax, whose scores are in no memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from autotune.rules.gpu.move import CLOSE, MovePlan, Options, bound_works
from autotune.rules.group import SYMBOLIC_SIZE, Group
from autotune.rules.plan import Plan
from schedule import Schedule, ScheduleError, library
from tensorir import Gpu, IterKind

ROWS = (1, 2, 4, 8)
THREADS = ((8, 8), (16, 8), (32, 8), (8, 16), (16, 16))
LIKELY = ((8, (16, 8)), (8, (8, 8)), (4, (32, 8)), (4, (8, 8)), (2, (8, 8)))
"""Rows of a thread, and threads down and across: the largest tiles first, which read the least."""

Point = tuple[int, tuple[int, int]]
"""Rows of a thread, and threads."""

BALANCED = 1.1
"""Times that a tile takes as long as with its blocks spread evenly, up to which smaller ones, which
read more, are not tried."""


class OnlinePlan(MovePlan):
    """All stages of one scan in one kernel."""

    is_timed = True  # with the sums that it is another algorithm of

    def _time(self, sch: Schedule) -> float:
        """Infinite where a thread would have more than its registers: how long what does not fit
        there takes is not told."""
        works = bound_works(sch.func, self.gpu, self.base.func)
        spills = any(work.registers >= self.gpu.registers_per_thread for work in works)
        return inf if spills else super()._time(sch)

    def _settles(self, sch: Schedule) -> bool:
        """Points that follow have smaller tiles: they compute the same and read no less, so that
        they gain by more blocks alone, where multiprocessors wait or stand idle."""
        from autotune.gpu.work import is_balanced

        works = bound_works(sch.func, self.gpu, self.base.func)
        balanced = len(works) == 1 and is_balanced(works[0], self.gpu, BALANCED)
        return balanced and self._time(sch) < inf


def online_stages(sch: Schedule, gpu: Gpu) -> Sequence[Plan]:
    """A plan for each scan of blocks of terms by what reads its last states."""
    found: list[Plan] = []
    taken: set[str] = set()
    for name in map(str, sch.get_blocks()):
        if name in taken or not _reads_sums_of_steps(sch, name):
            continue
        trial = sch.copy()
        try:
            rows = library.gpu.online_rows(trial, name)
        except ScheduleError:  # another scan
            continue
        left = trial.get_blocks()
        members = tuple(n for n in sch.get_blocks() if n in rows.stages or n not in left)
        taken.update(members)
        plan = _plan(sch, members, rows.extents, gpu)
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


def blocks_of(extents: Sequence[int | None], point: Point) -> int:
    """Blocks of threads for rows of such extents."""
    *outer, last = [SYMBOLIC_SIZE if extent is None else extent for extent in extents]
    rows, (down, _) = point
    return prod(outer) * -(-last // (rows * down))


def worth_trying(extents: Sequence[int | None], gpu: Gpu) -> list[Point]:
    """The likely points but those after which one comes that has no more of anything in a block,
    and no more blocks for any multiprocessor: that has less to do."""

    def less(point: Point, other: Point) -> bool:
        (rows, threads), (more, others) = point, other
        each, of_other = (-(-blocks_of(extents, p) // gpu.multiprocessors) for p in (point, other))
        within = rows <= more and all(a <= b for a, b in zip(threads, others))
        return within and each <= of_other

    return [p for n, p in enumerate(LIKELY) if not any(less(q, p) for q in LIKELY[n + 1 :])]


def _plan(
    sch: Schedule, members: tuple[str, ...], extents: Sequence[int | None], gpu: Gpu
) -> OnlinePlan:
    last = members[-1]
    options: Options = {"rows": ROWS, "threads": THREADS}
    likely = [{"rows": rows, "threads": threads} for rows, threads in worth_trying(extents, gpu)]

    def move(sch: Schedule, group: Group, rows: int, threads: tuple[int, int]) -> None:
        library.gpu.online(sch, group.block, rows=rows, threads=threads)

    return OnlinePlan(
        "online", Group(last), gpu, sch.copy(), move, options, likely, "reassociated", members,
        close=CLOSE,
    )  # fmt: skip
