"""Cost models: which of two schedules is faster, learned from the trials so far."""

from autotune.cost_model.make import (
    KINDS,
    known_models,
    load_cost_model,
    make_cost_model,
    register_cost_model,
)
from autotune.cost_model.model import CostModel, RandomModel, ResidualModel
from autotune.cost_model.quality import Quality, quality
from autotune.cost_model.roofline import draft

__all__ = [
    "KINDS",
    "CostModel",
    "Quality",
    "RandomModel",
    "ResidualModel",
    "draft",
    "known_models",
    "load_cost_model",
    "make_cost_model",
    "quality",
    "register_cost_model",
]
