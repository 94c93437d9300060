"""Sketch rules: from a function to the spaces of schedules that are worth searching."""

from autotune.rules.generate import (
    default_candidate,
    default_candidates,
    default_sketch,
    machine_of,
    make_space,
    sketches,
)
from autotune.rules.plan import Machine, Plan

__all__ = [
    "Machine", "Plan", "default_candidate", "default_candidates", "default_sketch",
    "machine_of", "make_space", "sketches",
]  # fmt: skip
