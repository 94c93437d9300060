"""Random schedules with threads mean the same after every pass of lowering, and have no race."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from gpu_programs import check_passes  # noqa: E402
from test_thread_races import random_threads  # noqa: E402


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(30))
def test_every_pass(seed):
    check_passes(random_threads(seed).func, close=1e-5)
