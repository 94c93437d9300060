"""Steps of scans: running sums and the like along what is contiguous, whose threads share each row,
and others, of which a thread has each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from autotune.rules.gpu.move import CLOSE, MovePlan, Options, bound_works
from autotune.rules.group import (
    Group,
    Refused,
    attempt,
    in_scan,
    instances,
    output_store,
    stores_of,
    stride_in,
)
from autotune.rules.plan import Plan
from schedule import Schedule, library
from tensorir import Block, Gpu, IterKind, Mismatch, body_loads, dtype, find_algorithm, written

if TYPE_CHECKING:
    from autotune.gpu.work import Work

THREADS = (256, 1024)
ELEMENTS = (5, 9, 17)
WARPS = (4, 8, 16)
OF_ROWS = (32, 64, 128, 256)
AHEAD = (8, 16, 32)
"""Steps of a recurrence that are fetched for at once."""


class ScanPlan(MovePlan):
    """A step of an associative scan, whose points differ in where lanes begin."""

    def _settles(self, sch: Schedule) -> bool:
        """What begins elsewhere waits as often and moves no less: it gains nothing where a kernel
        takes as long as its bytes, or as the waits of blocks that all run at once."""

        def binds(work: Work) -> bool:
            limit = work.limit(self.gpu)
            at_once = work.blocks <= self.gpu.multiprocessors
            return limit == "memory" or (limit == "latency" and at_once)

        works = bound_works(sch.func, self.gpu, self.base.func)
        return super()._settles(sch) or all(map(binds, works))


def inline_in_scans(sch: Schedule) -> Refused:
    """Compute what a scan alone reads, each element once, where it is read: threads that have rows,
    or pieces of them, compute side by side what a kernel of its own would write to memory. Returns
    the stages of which that is refused, and why."""
    refused: Refused = {}
    for name in map(str, sch.get_blocks()):
        block, users = sch.state.block(name), sch.get_consumers(name)
        if block.is_reduction or output_store(block) is None or in_scan(sch, block):
            continue
        readers = [sch.state.block(user) for user in users]
        own = written(block)[0]
        places = [sum(load.buffer is own for load in body_loads(r)) for r in readers]
        reads = sum(instances(r) * count for r, count in zip(readers, places))
        if readers and all(in_scan(sch, r) for r in readers) and reads <= instances(block):
            attempt(refused.setdefault(name, {}), f"{name!r} inline", sch.compute_inline, name)
    return refused


def rows_of_scans(sch: Schedule) -> Refused:
    """Lay out the states of associative scans row by row, where what they read is: so what reads
    them is found as after any other stage whose rows are contiguous. Returns the steps whose states
    stay as they are, and why."""
    algorithm = find_algorithm(f"scan_{THREADS[0]}x{ELEMENTS[0]}")
    assert algorithm is not None
    refused: Refused = {}
    for name in map(str, sch.get_blocks()):
        if not _along(sch.state.block(name)):
            continue
        trial, what = sch.copy(), f"states of {name!r} row by row"
        if not attempt(refused.setdefault(name, {}), what, library.gpu.states_in_rows, trial, name):
            continue
        try:
            algorithm.recognise(trial.func, trial.state.block(name))
        except Mismatch:  # other steps: their rows are to lie side by side
            continue
        library.gpu.states_in_rows(sch, name)
    return refused


def scan_plans(sch: Schedule, groups: Sequence[Group], gpu: Gpu) -> list[Plan]:
    """A plan for each step of an associative scan along which what it reads is contiguous, and for
    others that one stage alone reads.

    Elsewhere neighbouring rows lie side by side, and a thread for each of them reads them together.
    """
    found = (_plan(sch, group, gpu) for group in groups)
    return [plan for plan in found if plan is not None]


def _plan(sch: Schedule, group: Group, gpu: Gpu) -> Plan | None:
    """The plan for a step with the first row, and with what reads the states where that goes."""
    node = sch.state.block(group.block)
    if output_store(node) is None:
        return None
    order = [str(name) for name in sch.get_blocks()]
    first = order[order.index(group.block) - 1]
    if not _along(node):
        reader = _reader(sch, node) if in_scan(sch, node) else None
        plan = recurrence_plan(sch, group, gpu, reader, first) if reader else None
        return plan if plan is not None and plan.works else None
    threads = tuple(n for n in THREADS if n <= gpu.threads_per_block)
    options: Options = {
        "threads": threads, "elements": ELEMENTS, "warps": WARPS, "sectors": (False, True),
    }  # fmt: skip
    point = {"threads": threads[-1], "elements": _elements(node, gpu, threads[-1]), "warps": 8}
    within = library.gpu.begins_within(node)
    likely = [{**point, "sectors": sectors} for sectors in (True, False)[not within :]]
    for reader in dict.fromkeys((_reader(sch, node), None)):
        stages = (first, group.block, *([reader] if reader else ()))
        plan = ScanPlan(
            "scan", group, gpu, sch.copy(), partial(_scan, reader=reader), options, likely,
            "reassociated", stages, close=CLOSE if within else 1.0,
        )  # fmt: skip
        if plan.works:
            return plan
    return None


def _scan(sch: Schedule, group: Group, reader: str | None, **options: Any) -> None:
    library.gpu.scan(sch, group.block, reader=reader, **options)


def recurrence_plan(
    sch: Schedule, group: Group, gpu: Gpu, reader: str | None = None, first: str = ""
) -> MovePlan:
    """The plan for a step of any scan, with the first row and what reads the states if there is a
    `reader`: rows go to all multiprocessors before they fill one."""
    node = sch.state.block(group.block)
    rows = instances(node, IterKind.SPATIAL)
    wanted = [n for n in OF_ROWS if rows >= n * gpu.multiprocessors]
    threads = max(wanted, default=OF_ROWS[0])
    likely = [{"threads": threads, "ahead": ahead} for ahead in AHEAD[1:]]
    told = {"threads": "steps follow each other: each thread takes a row through all of them"}
    stages = () if reader is None else (first, group.block, reader)
    return MovePlan(
        "recurrence", group, gpu, sch.copy(), partial(_recurrence, reader=reader),
        {"threads": OF_ROWS, "ahead": AHEAD}, likely, stages=stages, told=told,
    )  # fmt: skip


def _recurrence(sch: Schedule, group: Group, reader: str | None, **options: Any) -> None:
    library.gpu.recurrence(sch, group.block, reader=reader, **options)


def _elements(node: Block, gpu: Gpu, threads: int) -> int:
    """Elements of a thread for which a block has room twice, and for a row if that is possible."""
    store = output_store(node)
    assert store is not None
    size, steps = dtype.itemsize(store.value.dtype), instances(node, IterKind.OPAQUE)
    most = {n: n * threads for n in ELEMENTS}
    fits = [n for n in ELEMENTS if 2 * size * min(most[n], 2 * steps) <= gpu.shared_most]
    _, usual, _ = ELEMENTS
    whole = [n for n in fits if n >= usual and most[n] >= steps]
    return min(whole, default=usual if usual in fits else ELEMENTS[0])


def _along(node: Block) -> bool:
    """Whether steps that follow each other read neighbours in memory."""
    times = [it.var for it in node.iters if it.kind is IterKind.OPAQUE]
    made = {store.buffer for store in stores_of(node)}
    reads = [load for load in body_loads(node) if load.buffer not in made]
    return any(stride_in(load, time, node) in (1, -1) for time in times for load in reads)


def _reader(sch: Schedule, node: Block) -> str | None:
    """What alone reads the states, if it is elementwise and they are no result."""
    store = output_store(node)
    users = [str(user) for user in sch.get_consumers(str(node.name)) if user != node.name]
    if store is None or store.buffer in sch.func.params or len(users) != 1:
        return None
    return None if sch.state.block(users[0]).is_reduction else users[0]
