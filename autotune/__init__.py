"""Searching for the fastest schedule, and the database of what was found."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.database.database import Database
    from autotune.database.records import Record
    from autotune.default import default_schedule, search_space
    from autotune.errors import DatabaseError, MeasureError
    from autotune.explain import explain
    from autotune.knobs.space import own_space
    from autotune.measure import MeasureSettings
    from autotune.measure.places.clusters import DaskRunner, dask_builder
    from autotune.measure.places.runner import Runner
    from autotune.report import summarize
    from autotune.report.figures import figures
    from autotune.tasks.family import tune_family
    from autotune.tasks.family_result import FamilyResult
    from autotune.tasks.results import TaskResults
    from autotune.tasks.tune_all import tune_all
    from autotune.tuning.result import TuneResult
    from autotune.tuning.tuner import tune

__all__ = lazy_names(__name__)
