"""Builds ahead by an executor of the user: `tune(builder=...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from functools import partial
from typing import Any

from autotune.errors import MeasureError
from autotune.measure.lock import Report
from autotune.measure.places.remote import Answer, ask, made_with, question
from autotune.measure.process import Reply, warn_once
from backends import default_cache

PATIENCE_S = 60.0
"""Seconds without an answer after which the user is told, once."""


class ExecutorBuilders:
    """As `BuilderPool`, with workers behind any `concurrent.futures.Executor`.

    Each build is one task. Objects come back with the answers, so that caches need not be shared.
    The executor is not ours: it is used and never shut down.
    """

    def __init__(
        self,
        executor: Executor,
        jobs: int,
        start_message: Mapping[str, Any],
        env: Mapping[str, str],
        limits: Mapping[str, float],
        restart_every: int,
        report: Report | None,
    ) -> None:
        self.jobs = jobs
        self._executor = executor
        self._asked = partial(question, start_message, env, limits=limits, restart=restart_every)
        self._target = str(start_message["target"])
        self._report = report

    def request(self, messages: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """The reply to each message, in order. Raises MeasureError where the executor fails."""
        futures: list[Future[Answer]] = []
        try:
            for message in messages:
                futures.append(self._executor.submit(ask, self._asked(message=message)))
            self._wait(futures)
            return [self._reply(future.result()) for future in futures]
        except Exception as error:
            raise _failed(error) from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Nothing: workers end what they have of ours when they are idle."""

    def _wait(self, futures: Sequence[Future[Answer]]) -> None:
        left, told = set(futures), self._report is None
        while left:
            done, left = wait(left, timeout=None if told else PATIENCE_S)
            if not done and not told and self._report is not None:
                self._report(f"no build came back for {PATIENCE_S:g} s: does the executor run?")
                told = True

    def _reply(self, answer: Answer) -> Reply:
        if answer.made_with and answer.made_with != made_with(self._target):
            warn_once(
                "a worker of the executor has another compiler, or a processor with other features,"
                f" than this machine ({answer.made_with}, here {made_with(self._target)}): what it"
                " compiles is compiled again here"
            )
        if answer.object is not None:
            key, data = answer.object
            if default_cache().find(key) is None:
                default_cache().add(key, lambda path: None if path.write_bytes(data) else None)
        return answer.reply


def _failed(error: Exception) -> MeasureError:
    if isinstance(error, MeasureError):
        return error
    return MeasureError(
        f"the executor that builds fails ({type(error).__name__}: {error}): its workers need this"
        " project as it is here; all finished trials are stored, and another executor goes on"
    )
