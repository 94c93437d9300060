"""Searching for the fastest schedule, and the database of what was found."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from autotune.database.database import Database as Database
    from autotune.database.records import Record as Record
    from autotune.default import default_schedule as default_schedule
    from autotune.default import search_space as search_space
    from autotune.errors import DatabaseError as DatabaseError
    from autotune.errors import MeasureError as MeasureError
    from autotune.explain import explain as explain
    from autotune.knobs.space import own_space as own_space
    from autotune.measure import MeasureSettings as MeasureSettings
    from autotune.measure.places.clusters import DaskRunner as DaskRunner
    from autotune.measure.places.clusters import dask_builder as dask_builder
    from autotune.measure.places.runner import Runner as Runner
    from autotune.report import summarize as summarize
    from autotune.report.figures import figures as figures
    from autotune.tasks.family import tune_family as tune_family
    from autotune.tasks.family_result import FamilyResult as FamilyResult
    from autotune.tasks.results import TaskResults as TaskResults
    from autotune.tasks.tune_all import tune_all as tune_all
    from autotune.tuning.result import TuneResult as TuneResult
    from autotune.tuning.tuner import tune as tune

__all__ = lazy_names(
    __name__,
    {
        "autotune.database.database": "Database",
        "autotune.default": "default_schedule search_space",
        "autotune.errors": "DatabaseError MeasureError",
        "autotune.explain": "explain",
        "autotune.knobs.space": "own_space",
        "autotune.measure": "MeasureSettings",
        "autotune.measure.places.clusters": "DaskRunner dask_builder",
        "autotune.measure.places.runner": "Runner",
        "autotune.report": "summarize",
        "autotune.report.figures": "figures",
        "autotune.database.records": "Record",
        "autotune.tasks.family": "tune_family",
        "autotune.tasks.family_result": "FamilyResult",
        "autotune.tasks.results": "TaskResults",
        "autotune.tasks.tune_all": "tune_all",
        "autotune.tuning.result": "TuneResult",
        "autotune.tuning.tuner": "tune",
    },
)
