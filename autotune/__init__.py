"""Searching for the fastest schedule, and the database of what was found."""

from autotune.database import Database
from autotune.errors import DatabaseError, MeasureError
from autotune.measure import MeasureSettings
from autotune.records import Record
from autotune.result import TuneResult
from autotune.tuner import tune

__all__ = [
    "Database",
    "DatabaseError",
    "MeasureError",
    "MeasureSettings",
    "Record",
    "TuneResult",
    "tune",
]
