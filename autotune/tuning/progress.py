"""A display of the search: trials, best so far, rate and time left. Quiet without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from autotune.database.records import Record

if TYPE_CHECKING:
    from autotune.tuning.expect import Expectation


class Progress:
    """Shows nothing, not even a wait."""

    def message(self, text: str) -> None:
        """Something the user should know now, such as a wait."""

    @contextmanager
    def task(self, name: str, done: int, total: int | None, work: int | None) -> "Iterator[Task]":
        """The display of one search, from `done` to `total` trials, None for no limit."""
        yield Task()


class Task:
    """One search; shows nothing."""

    def best(self, seconds: float | None) -> None:
        """The best time known at the start."""

    def expect(self, expectation: Expectation | None) -> None:
        """What is expected as long as there is no time."""

    def advance(self, record: Record) -> None:
        """One more trial."""

    def phase(self, text: str) -> None:
        """What happens now."""

    def model(self, text: str) -> None:
        """What the cost model is worth, as of the batch that begins."""


class PlainProgress(Progress):
    """Lines on standard error that is no terminal, for what somebody may wonder about later."""

    def message(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class RichProgress(Progress):
    """A bar on the terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)

    def message(self, text: str) -> None:
        self._console.print(text, highlight=False)

    @contextmanager
    def task(self, name: str, done: int, total: int | None, work: int | None) -> Iterator[Task]:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.fields[most]}"), TextColumn("{task.fields[best]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
            TextColumn("{task.fields[model]}", style="dim"),
        )  # fmt: skip
        with Bars(*columns, console=self._console, transient=True) as bars:
            identity = bars.add_task(
                f"tuning {name}", total=total, completed=done,
                most=total or "...", best="", model="",
            )  # fmt: skip
            yield _RichTask(bars, identity, work)


class _RichTask(Task):
    def __init__(self, bars: Any, identity: Any, work: int | None) -> None:
        self._bars, self._identity, self._work = bars, identity, work
        self._best: float | None = None
        self._failed = 0

    def best(self, seconds: float | None) -> None:
        self._best = seconds
        self._show(0)

    def expect(self, expectation: Expectation | None) -> None:
        if expectation is not None and self._best is None:
            self._bars.update(self._identity, best=f"expects {expectation}")

    def advance(self, record: Record) -> None:
        if record.status == "ok" and record.median is not None:
            self._best = min(record.median, self._best or record.median)
        elif record.has_failed:
            self._failed += 1
        self._show(1)

    def phase(self, text: str) -> None:
        self._bars.update(self._identity, description=text)

    def model(self, text: str) -> None:
        self._bars.update(self._identity, model=text)

    def _show(self, steps: int) -> None:
        text = "" if self._best is None else f"best {self._best * 1e3:.4g} ms"
        if self._best is not None and self._work:
            text += f" {self._work / self._best / 1e9:.1f} GFLOP/s"
        if self._failed:
            text += f" ({self._failed} failed)"
        self._bars.update(self._identity, advance=steps, best=text)


def make_progress(wanted: bool | None) -> Progress:
    """The display as wanted; where that is None, a bar on a terminal, and messages elsewhere."""
    if wanted is None and (sys.stderr is None or not sys.stderr.isatty()):  # None: a daemon
        return PlainProgress()
    return Progress() if wanted is False else RichProgress()
