"""Cost models: which of two schedules is faster, learned from the trials so far."""

from autotune.cost_model.draft import draft
from autotune.cost_model.make import KINDS, load_cost_model, make_cost_model
from autotune.cost_model.model import CostModel, RandomModel, ResidualModel
from autotune.cost_model.quality import Quality, quality

__all__ = [
    "KINDS",
    "CostModel",
    "Quality",
    "RandomModel",
    "ResidualModel",
    "draft",
    "load_cost_model",
    "make_cost_model",
    "quality",
]
