"""Builds ahead of timing, several at a time, each in a worker process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from autotune.measure.process import Reply, WorkerProcess, warn_once
from autotune.measure.scoring import OTHER_SPACE


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

    @property
    def jobs(self) -> int:
        return len(self._workers)

    def request(self, messages: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """The reply to each message, in order, each from the first worker that is free."""
        free: SimpleQueue[WorkerProcess] = SimpleQueue()
        for worker in self._workers:
            free.put(worker)

        def one(message: Mapping[str, Any]) -> Reply:
            worker = free.get()
            try:
                if worker.candidates >= self._restart_every:
                    worker.kill()
                return worker.request(message, self._limits)
            finally:
                free.put(worker)

        pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="build")
        try:
            return list(pool.map(one, messages))
        except BaseException:
            for worker in self._workers:
                worker.interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


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
