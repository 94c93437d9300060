"""Tiles of products on GPUs that primitives refuse: others are taken, and the reasons told."""

from __future__ import annotations

from typing import Any

from autotune.rules.gpu.product import ProductPlan
from schedule import Refusal, Schedule
from tests.autotune.test_rules_gpu_products import matmul, planned


def refusing(make: Any) -> Any:
    """`make`, but for the best plan."""

    def refuse(self: ProductPlan, sch: Schedule, plan: Any) -> None:
        if plan == self.found[0].plan:
            raise Refusal("no room today")
        make(self, sch, plan)

    return refuse


def test_what_was_refused_is_said(monkeypatch):
    """Tiles that the estimate put before the default's, with the reason."""
    monkeypatch.setattr(ProductPlan, "_make", refusing(ProductPlan._make))
    sketch = planned(matmul(64, 48, 32))
    (plan,) = (plan for plan in sketch.plans if isinstance(plan, ProductPlan))
    assert plan.chosen.plan == plan.found[1].plan
    (note,) = (note for note in sketch.notes() if note.startswith("impossible: tile "))
    assert plan.found[0].text in note and note.endswith("no room today")


def test_a_product_without_tiles_says_so(monkeypatch):
    """All are refused: another rule takes the product, and what was tried is told."""

    def refuse(self: ProductPlan, sch: Schedule, plan: Any) -> None:
        raise Refusal("no room at all")

    monkeypatch.setattr(ProductPlan, "_make", refuse)
    sketch = planned(matmul(64, 48, 40))
    assert not any(isinstance(plan, ProductPlan) for plan in sketch.plans)
    notes = [note for note in sketch.notes() if note.startswith("impossible: tile ")]
    assert notes and all(note.endswith("no room at all") for note in notes)
