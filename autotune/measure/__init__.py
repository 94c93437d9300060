"""Measuring candidates in a supervised worker process."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.measure.design import HasFunc as HasFunc
    from autotune.measure.design import Program as Program
    from autotune.measure.lock import machine_lock as machine_lock
    from autotune.measure.measurer import Measurer as Measurer
    from autotune.measure.reference import Reference as Reference
    from autotune.measure.reference import draw_inputs as draw_inputs
    from autotune.measure.reference import make_reference as make_reference
    from autotune.measure.settings import MeasureResult as MeasureResult
    from autotune.measure.settings import MeasureSettings as MeasureSettings

__all__ = lazy_names(
    __name__,
    {
        "autotune.measure.lock": "machine_lock",
        "autotune.measure.measurer": "Measurer",
        "autotune.measure.design": "HasFunc Program",
        "autotune.measure.reference": "Reference draw_inputs make_reference",
        "autotune.measure.settings": "MeasureResult MeasureSettings",
    },
)
