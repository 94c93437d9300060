"""Tuning databases with random damage, and what their checks have to notice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import database_checks  # noqa: E402
import fuzz  # noqa: E402

from autotune.database.store import Store  # noqa: E402


@pytest.mark.parametrize("seed", [*range(16), 325, 5216])
def test_seeds_have_no_findings(seed):
    row = database_checks.check_seed(seed)
    assert row["finding"] is None, fuzz.show_finding(row["finding"])


def found_in(seeds: range) -> list[str]:
    findings = [database_checks.check_seed(seed)["finding"] for seed in seeds]
    return [finding["error"] for finding in findings if finding]


def test_rows_that_are_lost_are_found(monkeypatch):
    rows = Store.rows
    monkeypatch.setattr(Store, "rows", lambda self, *args: list(rows(self, *args))[1:])
    assert any("were not read" in error for error in found_in(range(4)))


def test_a_raw_error_is_found(monkeypatch):
    def failing(self):
        raise KeyError("payload")

    monkeypatch.setattr(Store, "check", failing)
    assert any("KeyError" in error for error in found_in(range(2)))
