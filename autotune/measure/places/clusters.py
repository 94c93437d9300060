"""Dask: its workers build candidates, and one after the other is the device where they run.

Who is there, who takes a task over from a worker that died and what a worker is allowed to do is
Dask's affair. Workers need this project as it is here. `pip install 'tensorir[dask]'`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import MeasureError
from autotune.machine.machine import this_machine
from autotune.measure.busy import Neighbours
from autotune.measure.lock import Report
from autotune.measure.places.remote import Answer, ask, question
from autotune.measure.process import Reply

if TYPE_CHECKING:
    from distributed import Client

POLL_S = 1.0
"""Seconds after which it is looked whether a worker is still there."""

LOST = 5
"""Workers that may be lost over one candidate."""


def dask_builder(client: Client) -> Executor:
    """An executor of the workers of a cluster, for `tune(builder=...)`."""
    executor: Executor = client.get_executor(pure=False)
    return executor


class DaskRunner:
    """A device of a cluster, for `tune(runner=...)`: one of its workers, and one candidate at a
    time. Where that worker dies, another one on a machine of the same kind takes its place.

    client   of the cluster
    workers  addresses of those that may be taken; None: all
    """

    def __init__(self, client: Client, workers: list[str] | None = None) -> None:
        self.client = client
        self._allowed = workers

    def check(self) -> None:
        """Raise MeasureError where no worker is on a machine of the kind of this one."""
        self.pick(())

    def slot(self, start_message: Mapping[str, Any], env: Mapping[str, str]) -> DaskSlot:
        return DaskSlot(self, start_message, env)

    @contextmanager
    def alone(self, report: Report | None, *neighbours: Neighbours) -> Iterator[None]:
        """Each candidate holds the lock of the machine where it runs, and its canary notices what
        disturbs it; what else works there is not known."""
        yield

    def pick(self, lost: tuple[str, ...]) -> str:
        """The first worker on a machine of this kind, without those that were lost."""
        there = sorted(w for w in self.client.nthreads() if w not in lost)
        taken = [w for w in there if self._allowed is None or w in self._allowed]
        kinds = self.client.run(_kind, workers=taken) if taken else {}
        here = _kind()
        for worker in taken:
            if kinds.get(worker) == here:
                return worker
        found = ", ".join(sorted(set(map(str, kinds.values())))) or "none at all"
        raise MeasureError(
            f"the cluster has no worker on a machine of this kind ({here}), for which schedules are"
            f" made and times are stored; there are {found}"
        )

    def is_there(self, worker: str) -> bool:
        return worker in self.client.nthreads()


class DaskSlot:
    """The slot of a runner."""

    def __init__(
        self, runner: DaskRunner, start_message: Mapping[str, Any], env: Mapping[str, str]
    ) -> None:
        self._runner = runner
        self._data = Path(start_message["reference"]).read_bytes()
        self._asked = partial(question, {**start_message, "reference": None}, env)
        self._renew = False
        self._worker = ""
        self._reference: Any = None

    def request(self, message: Mapping[str, Any], limits: Mapping[str, float]) -> Reply:
        """The reply of the device. Raises MeasureError where worker after worker is lost."""
        lost: tuple[str, ...] = ()
        while len(lost) < LOST:
            if not self._worker:
                self._worker = self._runner.pick(lost)
                self._reference = self._runner.client.scatter(self._data, workers=[self._worker])
            answer = self._answer(message, limits)
            if answer is not None:
                self._renew = False
                return answer.reply
            lost, self._worker = (*lost, self._worker), ""
        raise MeasureError(
            f"{LOST} workers of the cluster were lost over one candidate; all finished trials are"
            " stored, and the same call goes on"
        )

    def kill(self) -> None:
        """Have the next request begin with a new process."""
        self._renew = True

    def close(self) -> None:
        """What is left there ends when it is idle."""
        self._reference, self._worker = None, ""

    def _answer(self, message: Mapping[str, Any], limits: Mapping[str, float]) -> Answer | None:
        """The answer of the worker; None where it is lost."""
        restart = 0 if self._renew else 1 << 30
        asked = self._asked(message=message, limits=limits, restart=restart)
        future = self._runner.client.submit(
            ask, asked, self._reference, workers=[self._worker], pure=False, retries=0
        )
        try:
            while True:
                with suppress(TimeoutError):
                    found: Answer = future.result(timeout=POLL_S)
                    return found
                if not self._runner.is_there(self._worker):
                    return None
        except Exception as error:
            if not self._runner.is_there(self._worker):
                return None
            raise MeasureError(
                f"worker {self._worker} of the cluster cannot run candidates"
                f" ({type(error).__name__}: {error}): it needs this project as it is here"
            ) from error
        finally:
            future.cancel()


def _kind() -> str:
    return this_machine().key
