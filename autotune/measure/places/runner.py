"""Where candidates are run: on this machine, or on another one of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from autotune.arguments import instance
from autotune.measure.busy import Neighbours
from autotune.measure.lock import Report, machine_lock
from autotune.measure.process import Reply, WorkerProcess, warn_once


class Slot(Protocol):
    """The one place on a device where candidates run, one by one, in a process that may crash."""

    def request(self, message: Mapping[str, Any], limits: Mapping[str, float]) -> Reply:
        """Send a message and wait for its answer; `limits` are the seconds of each phase."""
        ...

    def kill(self) -> None:
        """End the process; the next request starts a new one."""
        ...

    def close(self) -> None:
        """End it for good."""
        ...


@runtime_checkable
class Runner(Protocol):
    """One device with one slot. Times of all candidates of a search are taken there.

    It has to be of the kind of the machine that tunes, for which schedules are made and records
    are stored: `check` raises MeasureError where it is not.
    """

    def check(self) -> None: ...

    def slot(self, start_message: Mapping[str, Any], env: Mapping[str, str]) -> Slot:
        """The slot, whose process begins with this message and these environment variables.

        `start_message["reference"]` is the path of a file here that it reads.
        """
        ...

    def alone(
        self, report: Report | None, *neighbours: Neighbours
    ) -> AbstractContextManager[object]:
        """Held while times are taken, so that nobody else does on the device; `neighbours` note
        how busy it is otherwise, where that can be known. `report` is told of waits."""
        ...


class LocalRunner:
    """This machine; `lock` is the file of the lock, None for that of all tuners."""

    def __init__(self, lock: Path | None = None) -> None:
        self._lock = lock

    def check(self) -> None:
        """It is of its own kind."""

    def slot(self, start_message: Mapping[str, Any], env: Mapping[str, str]) -> WorkerProcess:
        worker = WorkerProcess(start_message, env, warn_once)
        worker.start()
        return worker

    @contextmanager
    def alone(self, report: Report | None, *neighbours: Neighbours) -> Iterator[None]:
        with machine_lock(report=report, path=self._lock), ExitStack() as stack:
            for each in neighbours:
                stack.enter_context(each.watching())
            yield


@dataclass(frozen=True)
class Workers:
    """Who builds candidates and where they run; None: processes of ours on this machine."""

    builder: Executor | None = None
    runner: Runner | None = None

    def __post_init__(self) -> None:
        if self.builder is not None:
            instance("builder", self.builder, Executor, "a concurrent.futures.Executor, or None")
        if self.runner is not None:
            words = "a runner such as autotune.DaskRunner(client), or None"
            instance("runner", self.runner, Runner, words)


HERE = Workers()
