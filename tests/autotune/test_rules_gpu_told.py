"""What rules for GPUs cannot make of chains and results is told."""

from __future__ import annotations

from typing import Any

from autotune.rules.planned import PlannedSketch
from schedule import Schedule, ScheduleError, library
from tensorir import ops, te
from tests.autotune.test_rules_gpu import names, planned, program, softmax


def notes(sketch: PlannedSketch) -> list[str]:
    """What it says is impossible."""
    return [note for note in sketch.notes() if note.startswith("impossible")]


def test_a_chain_that_is_refused_is_told(monkeypatch):
    """All of it, where other rules take its stages, and a likely point where another is taken."""

    def refuse(sch: Schedule, block: str, **options: Any) -> None:
        raise ScheduleError("rows", block, "no room today", "", sch.state, sch.trace)

    monkeypatch.setattr(library.gpu, "rows", refuse)
    sketch = planned(program(softmax, (70, 300)))
    assert "chain" not in names(sketch)
    assert "impossible: the chain that ends in 'S': no room today" in notes(sketch)


def test_a_likely_point_of_a_chain_that_is_refused_is_told():
    def neighbours(x: Any) -> Any:
        k = te.reduce_axis(63, name="k")
        total = te.compute((64,), lambda i: te.sum(x[i, k] * x[i, k + 1], axis=k), name="total")
        return te.compute((64, 64), lambda i, j: x[i, j] * total[i], name="S")

    sketch = planned(program(neighbours, (64, 64)))
    assert names(sketch) == ["chain"]
    assert any("a likely point of the chain that ends in 'S'" in note for note in notes(sketch))


def test_results_that_their_user_does_not_store_are_told():
    def pairs(x: Any, w: Any) -> Any:
        y = ops.matmul(x, w, name="product")
        return te.compute((16, 64), lambda i, j: y[2 * i, j] + y[2 * i + 1, j], name="S")

    told = notes(planned(program(pairs, (32, 64), (64, 64))))
    assert any(note.startswith("impossible: 'product' stored by its user: block") for note in told)
