"""Builds ahead of timing, several at a time, each in a worker process of its own."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from autotune.measure.process import Reply, WorkerProcess, warn_once
from autotune.measure.scoring import KEPT, OTHER_SPACE
from autotune.measure.settings import MeasureResult


class BuilderPool:
    """`jobs` workers that only build; `limits` are the seconds of each phase."""

    def __init__(
        self,
        jobs: int,
        start_message: Mapping[str, Any],
        env: Mapping[str, str],
        limits: Mapping[str, float],
        restart_every: int,
    ) -> None:
        self._workers = [WorkerProcess(start_message, env, warn_once) for _ in range(jobs)]
        self._limits = limits
        self._restart_every = restart_every
        self._scored: list[deque[str]] = [deque(maxlen=KEPT) for _ in range(jobs)]
        self._begun: list[Future[Reply]] = []

    @property
    def jobs(self) -> int:
        return len(self._workers)

    def begin(self, message: Mapping[str, Any]) -> None:
        """Have each worker start and answer `message`, which is waited for by the next request: who
        fails now is asked again then."""
        pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="begin")
        self._begun = [pool.submit(w.request, message, self._limits) for w in self._workers]
        pool.shutdown(wait=False)

    def request(self, messages: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """The reply to each message, in order, each from the first worker that is free; of a
        candidate from the one that has told its features, if that is free soon enough."""
        waiting = Waiting([_candidates(message) for message in messages], self._scored)
        replies: dict[int, Reply] = {}

        def work(number: int) -> None:
            worker = self._workers[number]
            while (at := waiting.take(number)) is not None:
                if worker.candidates >= self._restart_every:
                    worker.kill()
                replies[at] = worker.request(messages[at], self._limits)
                if messages[at].get("op") == "features":
                    self._scored[number].extend(_candidates(messages[at]))

        pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="build")
        try:
            self._settle()
            for done in [pool.submit(work, n) for n in range(min(self.jobs, len(messages)))]:
                done.result()
            return [replies[at] for at in range(len(messages))]
        except BaseException:
            for worker in self._workers:
                worker.interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)

    def close(self) -> None:
        for worker in self._workers if self._begun else ():
            worker.interrupt()
        self._settle()
        for worker in self._workers:
            worker.close()

    def _settle(self) -> None:
        """Wait for what workers begin with."""
        for each in self._begun:
            each.exception()
        self._begun = []


class Waiting:
    """Messages that no worker has taken.

    wanted  the candidates of each message
    scored  those that each worker has told the features of: it has their schedules
    """

    def __init__(
        self, wanted: Sequence[Collection[str]], scored: Sequence[Collection[str]]
    ) -> None:
        self._wanted, self._left = wanted, set(range(len(wanted)))
        self._scored = [set(each) for each in scored]
        self._lock = threading.Lock()

    def take(self, worker: int) -> int | None:
        """The position of the next message for a worker; None where none is left. What others
        have schedules of comes last, and of that what they would come to last."""
        own = self._scored[worker]
        others = set[str]().union(*(s for n, s in enumerate(self._scored) if n != worker))

        def order(at: int) -> tuple[int, int]:
            if not own.isdisjoint(self._wanted[at]):
                return 0, at
            return (1, at) if others.isdisjoint(self._wanted[at]) else (2, -at)

        with self._lock:
            if not self._left:
                return None
            at = min(self._left, key=order)
            self._left.remove(at)
            return at


def _candidates(message: Mapping[str, Any]) -> list[str]:
    """The candidates that a message speaks of, as texts."""
    found = message["candidates"] if "candidates" in message else [message.get("candidate")]
    return [json.dumps(each) for each in found if each is not None]


def elsewhere(replies: Sequence[Reply]) -> list[int]:
    """The positions of the replies of workers that know another space, of which a warning tells."""
    found = [at for at, r in enumerate(replies) if r.data.get("status") == OTHER_SPACE]
    if found:
        warn_once(
            "workers know other schedules of this program than this process, as where rules,"
            " algorithms or intrinsics were registered only here: this process makes the schedules"
            " for them, which takes longer and finds the same"
        )
    return found


def tell_why(results: Sequence[MeasureResult]) -> None:
    """Warn of a worker that failed to find features."""
    why = next((r for r in results if r.status not in ("ok", OTHER_SPACE)), None)
    if why is not None:
        last = why.error.strip().rpartition("\n")[2]
        warn_once(
            "a worker found no features of candidates, and this process looks for those of all"
            f" from now on: {why.status}: {last}"
        )
