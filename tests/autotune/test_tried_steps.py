"""Steps that were tried to plan are those of the schedule."""

from __future__ import annotations

from collections import Counter

import pytest

from autotune import default_schedule
from autotune.rules.chain import ChainPlan
from autotune.rules.side_by_side import SideBySidePlan
from autotune.rules.transposed import TransposedPlan
from tensorir import ops, te, verify

TRIED = {
    "rows": ((64, 96), lambda x: ops.softmax(x, name="out")),
    "short rows": ((4096, 5), lambda x: ops.softmax(x, name="out")),
    "turned": ((64, 96), lambda x: te.compute((96, 64), lambda i, j: x[j, i] * 2.0, name="out")),
}


@pytest.mark.parametrize("name", TRIED)
def test_steps_that_were_tried_are_taken_and_not_asked_for_again(name, monkeypatch):
    """Of a program of one plan: trying it made the default schedule."""
    asked = Counter()

    def apply(plan, *args):
        asked[type(plan).__name__] += 1
        return known[type(plan)](plan, *args)

    known = {kind: kind.apply for kind in (ChainPlan, SideBySidePlan, TransposedPlan)}
    for kind in known:
        monkeypatch.setattr(kind, "apply", apply)
    shape, make = TRIED[name]
    x = te.placeholder(shape, name="x")
    sch = default_schedule(te.create_prim_func([x, make(x)], name="f"), "c -threads=2")
    assert [*asked.values()] == [1]
    verify(sch.func)
