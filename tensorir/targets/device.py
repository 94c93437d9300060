"""Devices by kind: what schedules, features and estimates ask of a processor or a GPU."""

from __future__ import annotations

from tensorir.annotations import checked
from tensorir.targets.costs import Costs, usual_costs
from tensorir.targets.cpu import Cpu
from tensorir.targets.gpu import Gpu
from tensorir.targets.target import Target

Device = Cpu | Gpu


@checked
def device_of(target: Target, costs: Costs | None = None) -> Device:
    """The description of what a resolved target (backends.resolve) is compiled for.

    costs  of a processor's steps; None for the usual ones of its kind
    """
    if target.on_gpu:
        return Gpu(target)
    return Cpu(target, costs or usual_costs(target.features))
