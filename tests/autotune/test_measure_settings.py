"""What measuring is asked for, and its results as they are stored."""

from __future__ import annotations

import pytest

from autotune.errors import MeasureError
from autotune.measure import MeasureResult, MeasureSettings


def test_settings_are_checked():
    with pytest.raises(MeasureError, match="timeout_s must be positive, not 0"):
        MeasureSettings(timeout_s=0)
    with pytest.raises(MeasureError, match="prune_factor must be above 1"):
        MeasureSettings(prune_factor=1.0)
    with pytest.raises(MeasureError, match="min_ms must not be negative"):
        MeasureSettings(min_ms=-1)


def test_result_from_json():
    data = {"status": "ok", "times": [1.0], "median": 1.0, "verdict": {"checked": True}}
    result = MeasureResult.from_json(data)
    assert result.times == (1.0,) and result.verdict.checked
    assert set(result.record_fields()) <= set(result.__dataclass_fields__)
