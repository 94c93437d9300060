"""Measuring candidates in a supervised worker process."""

from autotune.measure.lock import machine_lock
from autotune.measure.measurer import HasFunc, Measurer, Program
from autotune.measure.reference import Reference, draw_inputs, make_reference
from autotune.measure.settings import MeasureResult, MeasureSettings

__all__ = [
    "HasFunc",
    "MeasureResult",
    "MeasureSettings",
    "Measurer",
    "Program",
    "Reference",
    "draw_inputs",
    "machine_lock",
    "make_reference",
]
