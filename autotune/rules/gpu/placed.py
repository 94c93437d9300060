"""Results of products that are stored in another order than they are computed in, at once."""

from __future__ import annotations

from collections.abc import Collection

from autotune.rules.gpu.product import contraction_of
from autotune.rules.gpu.reuse import is_shared
from autotune.rules.gpu.scan import inline_in_scans, rows_of_scans
from autotune.rules.gpu.windows.plans import windows_plans
from autotune.rules.group import Group, Refused, epilogue_of
from schedule import Schedule, ScheduleError
from tensorir import Gpu


def in_place(sch: Schedule, gpu: Gpu, taken: Collection[str] = ()) -> Refused:
    """What scans read, their states and results of products where they are used, ahead of all
    rules, but for products `taken` by a plan of many stages. Returns the stages, steps and sums of
    which that is refused, and why."""
    return {**inline_in_scans(sch), **rows_of_scans(sch), **place_results(sch, gpu, taken)}


def place_results(sch: Schedule, gpu: Gpu, taken: Collection[str] = ()) -> Refused:
    """Let products store where their only user would move each element: out of parts of rows, or
    without some of them, such as phases of a stride that are interleaved. So the elements stay in
    registers in between, and the user is an epilogue that is found like others. Returns the sums
    whose user refuses, and why."""
    refused: Refused = {}
    blocks = [str(name) for name in sch.get_blocks() if name not in taken]
    sums = [name for name in blocks if sch.state.block(name).is_reduction]
    for name in sums:
        users = sch.get_consumers(name)
        if len(users) != 1 or epilogue_of(sch, name) is not None:
            continue
        c = contraction_of(sch, Group(name))
        if sch.state.block(users[0]).is_reduction or c is None or not is_shared(c):
            continue
        if windows_plans(sch, Group(name), gpu):
            continue
        steps = len(sch.trace)
        try:
            sch.cache_write(name, 0, "global")
            sch.reverse_compute_inline(users[0], part=True)
        except ScheduleError as error:  # it reads elements twice, or sums of others besides
            sch.undo(len(sch.trace) - steps)
            refused[name] = {f"{name!r} stored by its user": error.reason}
    return refused
