"""Searches of benchmarks: records that ship with the project never stand in for one."""

from __future__ import annotations

from typing import Any

from autotune import TuneResult, tune


def searched(*args: Any, **options: Any) -> TuneResult:
    """`tune` of what the database has, and of what is measured here and now."""
    return tune(*args, **options, shipped=False)
