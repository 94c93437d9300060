"""Measuring candidates in a supervised worker process."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.measure.design import HasFunc, Program
    from autotune.measure.lock import machine_lock
    from autotune.measure.measurer import Measurer
    from autotune.measure.reference import Reference, draw_inputs, make_reference
    from autotune.measure.settings import MeasureResult, MeasureSettings

__all__ = lazy_names(__name__)
