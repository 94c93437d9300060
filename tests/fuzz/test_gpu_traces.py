"""Random schedules for GPUs: no race, no lost value, the same result before and after lowering."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import gpu_checks  # noqa: E402
import gpu_traces  # noqa: E402

REGRESSIONS = [7, 86]
"""An init that ran again in each iteration of a loop of no variable."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(4000, 4026), *REGRESSIONS])
def test_traces(seed):
    gpu_checks.check(seed)


def test_what_is_drawn_is_accepted():
    """Often enough for the test to mean something: whole tiled products and reductions of rows."""
    accepted: Counter[str] = Counter()
    whole = 0
    for seed in range(60):
        trace = gpu_traces.Trace(seed)
        accepted += trace.accepted
        text = str(trace.sch.func)
        axes = sum(axis in text for axis in ("blockIdx", "threadIdx", "vthread", "lane"))
        whole += axes > 1 and 'scope="shared"' in text
    assert whole > 20
    least = {
        "bind": 150, "compute_at": 40, "cooperative_fetch": 8, "cache_read": 30, "swizzle": 4,
        "double_buffer": 3, "pipeline": 1, "set_scope": 25, "decompose_reduction": 4,
        "transform_layout": 2,
    }  # fmt: skip
    assert {name: accepted[name] for name in least if accepted[name] < least[name]} == {}
