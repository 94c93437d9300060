"""What estimates and rules ask of the device that a program is made for."""

from __future__ import annotations

from tensorir import Costs, Cpu

__all__ = ["Costs", "Cpu"]
