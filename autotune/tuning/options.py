"""What options of tune may be, and the database that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType

from autotune.arguments import check_path, instance
from autotune.database.database import Database
from autotune.measure import MeasureSettings

OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "settings": ((MeasureSettings, NoneType), "MeasureSettings(...) or None"),
    "progress": ((bool, NoneType), "True, False or None"),
    "shipped": ((bool,), "True or False"),
    "cost_model": ((str,), "the name of one"),
}
"""What options of `tune` may be, and the same in words."""


def check_options(**given: object) -> None:
    """Raise TensorIRError for an option that is not of its kind."""
    for name, value in given.items():
        instance(name, value, *OPTIONS[name])


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
