"""Stages that read along another axis than they write: through tiles in shared memory."""

from __future__ import annotations

from autotune.rules.gpu.move import MovePlan
from autotune.rules.group import Group
from autotune.rules.plan import Plan
from schedule import Schedule
from tensorir import Gpu

WARPS = (4, 8, 16)


def turned_plans(sch: Schedule, group: Group, gpu: Gpu) -> list[Plan]:
    """The plan for a stage that reads one array, or several alike, along another axis."""
    if sch.state.block(group.block).is_reduction:
        return []
    options = {"warps": tuple(n for n in WARPS if n * gpu.warp <= gpu.threads_per_block)}
    plan = MovePlan("turned", group, gpu, sch.copy(), _turn, options, [{"warps": 8}])
    return [plan] if plan.works else []


def _turn(sch: Schedule, group: Group, warps: int) -> None:
    from schedule import library

    library.gpu.transpose(sch, group.block, warps=warps)
