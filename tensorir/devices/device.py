"""Devices by kind: what schedules, features and estimates ask of a processor or a GPU."""

from __future__ import annotations

from tensorir.devices.cpu import Cpu
from tensorir.devices.gpu import Gpu
from tensorir.targets.target import Target

Device = Cpu | Gpu


def device_of(target: Target) -> Device:
    """The description of what a resolved target (backends.resolve) is compiled for."""
    return Gpu(target) if target.on_gpu else Cpu(target)
