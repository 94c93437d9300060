"""The device that programs are scheduled for, with the costs that were asked for."""

from __future__ import annotations

from backends import resolve
from tensorir import Costs, Device, Target, device_of


def device_for(target: Target | str, costs: Costs | str | None = None) -> Device:
    """The description of a target; see `default_schedule` for its costs, and for errors."""
    resolved = resolve(target)
    if costs is None:
        return device_of(resolved)
    from autotune.calibration.stored import costs_of  # few programs need it

    return device_of(resolved, costs_of(costs, resolved))
