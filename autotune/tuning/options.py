"""How to search: what `tune`, `tune_all` and `tune_family` are told alike, and the database."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, TypedDict, TypeVar

from autotune.arguments import check_path, instance
from autotune.database.database import Database
from autotune.measure import MeasureSettings
from autotune.measure.places.runner import Runner, Workers
from autotune.search import DEFAULT_STRATEGY, Propose, search_named
from tensorir import DEFAULT_NUMERICS, Costs, check_numerics

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATABASE = "tuning_logs/tuning.db"


@dataclass(frozen=True)
class Options:
    """How to search, which tune, tune_all and tune_family are told alike:

    numerics    what schedules may do to floating-point results: "bitwise" keeps the order of sums,
                "reassociated" does not, "algebraic" also tries other algorithms (Winograd's),
                "mixed" instructions of less precision; errors are bounded alike for all
    strategy    one of `autotune.search.STRATEGIES`; cost_model "auto" or one of `known_models()`
    settings    how to measure; `progress` shows it, None on a terminal
    costs       what steps of the processor are estimated to cost, as for `default_schedule`
    builder     a `concurrent.futures.Executor` that compiles; `runner` the device where candidates
                run (`autotune.measure.places.runner`); None: processes of this machine
    """

    numerics: str = DEFAULT_NUMERICS
    strategy: str = DEFAULT_STRATEGY
    cost_model: str = "auto"
    settings: MeasureSettings | None = None
    progress: bool | None = None
    costs: Costs | str | None = None
    builder: Executor | None = None
    runner: Runner | None = None

    def __post_init__(self) -> None:
        check_numerics(self.numerics)
        search_named(self.strategy)
        instance("cost_model", self.cost_model, str, "the name of one")
        words = "MeasureSettings(...) or None"
        instance("settings", self.settings, (MeasureSettings, NoneType), words)
        instance("progress", self.progress, (bool, NoneType), "True, False or None")
        _ = self.workers

    @staticmethod
    def of(given: OptionsGiven) -> Options:
        """Those of a call; TypeError for a keyword that is none, as of a function that lists
        them, and TensorIRError for a value that is not of its kind."""
        unknown = [name for name in given if name not in DEFAULTS]
        if unknown:
            raise TypeError(
                f"unexpected keyword argument {unknown[0]!r}; beside parameters of the function, "
                f"options are {', '.join(DEFAULTS)}"
            )
        return Options(**given)

    @property
    def propose(self) -> Propose:
        return search_named(self.strategy)

    @property
    def workers(self) -> Workers:
        return Workers(self.builder, self.runner)


USUAL = Options()


class OptionsGiven(TypedDict, total=False):
    """The same as keywords of a call, for what completes and checks calls."""

    numerics: str
    strategy: str
    cost_model: str
    settings: MeasureSettings | None
    progress: bool | None
    costs: Costs | str | None
    builder: Executor | None
    runner: Runner | None


DEFAULTS = {field.name: field.default for field in fields(Options)}


def with_options(function: F) -> F:
    """Have the help of a function that takes `**options` show what these are."""
    own = inspect.signature(function)
    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(f.name, kind, default=f.default, annotation=f.type)
        for f in fields(Options)
    ]
    said = (inspect.cleandoc(text or "") for text in (function.__doc__, Options.__doc__))
    function.__doc__ = "\n\n".join(said)
    function.__signature__ = own.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
    return function


@contextmanager
def opened(database: str | Path | Database | None) -> Iterator[Database]:
    """The database; one that was given as such stays open."""
    if isinstance(database, Database):
        yield database
        return
    if database is not None:
        check_path("database", database, "a Database, the path of one, or None")
    with Database(":memory:" if database is None else database) as opened:
        yield opened
