"""Tiles of products on GPUs that primitives refuse: others are taken, and the reasons told."""

from __future__ import annotations

from typing import Any

import pytest

from autotune import default_schedule
from autotune.rules.gpu.product import ProductPlan
from schedule import Refusal, Schedule
from tensorir import te
from tests.autotune.test_rules_gpu_products import matmul, planned
from tests.fuzz.network_checks import check_schedule


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


@pytest.mark.parametrize("kind", ["bfloat16", "float32", "int8"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_tile_whose_size_is_no_number_is_refused(kind, turned):
    """Lowering knows no constant part of what a step reads, of one array or of two: not said by the
    move, and an error of the whole default once."""
    n = te.var("n")
    a = te.placeholder((3 * n, 4), kind, name="A")
    k, q = te.reduce_axis(n, name="k"), te.reduce_axis(16, name="q")

    def term() -> te.Tensor:
        value = te.if_then_else(te.all(q + q < 3 * n, k < 4), a[q + q, k], te.const(1, kind))
        return te.sum(value, axis=[q, k] if turned else [k, q])

    total = te.compute((), term, name="total")
    func = te.create_prim_func([n, a, total])
    check_schedule(default_schedule(func, "cuda-emulator"), "cuda-emulator", {"n": 32})
