"""Sketch rules: from a function to the spaces of schedules that are worth searching."""

from autotune.rules.defaults import (
    choose,
    default_candidate,
    default_candidates,
    default_sketch,
    make_space,
)
from autotune.rules.generate import sketches
from autotune.rules.moves import forget_move, register_move
from autotune.rules.plan import Plan
from autotune.rules.registry import RULES, Rules, forget_rule, register_rule, rules_for

__all__ = [
    "RULES", "Plan", "Rules", "choose", "default_candidate", "default_candidates", "default_sketch",
    "forget_move", "forget_rule", "make_space", "register_move", "register_rule", "rules_for",
    "sketches",
]  # fmt: skip
