"""Workers on machines of others: what an executor, or a cluster, is asked to do.

`ask` can be pickled by its name, and runs where the executor has it run. A worker process of ours
stands behind it there, as behind the tuner itself: a candidate that crashes, hangs or eats memory
is its end, and not that of the executor's worker.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.measure.lock import machine_lock
from autotune.measure.process import Reply, WorkerProcess, warn_once
from backends import ScratchFolder, compiler_info, default_cache

PLACES = ("TMPDIR", "TENSORIR_CACHE")
"""Variables of the environment that name folders."""

IDLE_S = 20.0
"""Seconds without a question after which a worker process is ended."""


@dataclass(frozen=True)
class Question:
    """What is asked, as plain data.

    start     the first message to a worker process, as JSON, and `env` its environment
    message   what it is asked, and `limits` the seconds of each phase
    restart   after how many requests the worker process is renewed; 0: now
    """

    start: str
    env: Mapping[str, str]
    message: Mapping[str, Any]
    limits: Mapping[str, float]
    restart: int

    @property
    def target(self) -> str:
        return str(json.loads(self.start)["target"])


def question(
    start_message: Mapping[str, Any],
    env: Mapping[str, str],
    message: Mapping[str, Any],
    limits: Mapping[str, float],
    restart: int,
) -> Question:
    """The question of these; folders of this machine are none of another one."""
    known = {name: value for name, value in env.items() if name not in PLACES}
    start = json.dumps(dict(start_message), sort_keys=True)
    return Question(start, known, dict(message), dict(limits), restart)


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    object     where one was compiled, its name in the cache and its bytes
    made_with  what tells compilers and processors apart
    """

    reply: Reply
    object: tuple[str, bytes] | None = None
    made_with: str = ""


def ask(question: Question, reference: bytes | None = None) -> Answer:
    """The answer of a worker process of ours, which is started if need be.

    With a `reference`, inputs and expected results as the bytes of a file, candidates are run:
    nobody else times or builds on this machine meanwhile. Without, they are built.
    """
    worker = _HELD.worker(runs=reference is not None)
    with machine_lock(shared=reference is None):
        reply = worker.request(question, reference)
    return Answer(reply, _object(reply), made_with(question.target))


def made_with(target: str) -> str:
    """Equal where the same objects are made for a target; its compiler, in words."""
    info = compiler_info(target)
    features = hashlib.blake2b(repr(info["features"]).encode(), digest_size=4).hexdigest()
    return f"{info['version']} {' '.join(info['flags'])} for features {features}"


def _object(reply: Reply) -> tuple[str, bytes] | None:
    key = str(reply.data.get("object") or "")
    path = default_cache().find(key) if key else None
    return None if path is None else (key, path.read_bytes())


class _Worker:
    """The worker process of one thread, which ends when it was idle for some time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started_as = ""
        self._process: WorkerProcess | None = None
        self._folder: ScratchFolder | None = None
        self._timer: threading.Timer | None = None

    def request(self, question: Question, reference: bytes | None) -> Reply:
        with self._lock:
            self._stop_timer()
            try:
                process = self._of(question, reference)
                if process.candidates >= question.restart:
                    process.kill()
                return process.request(question.message, question.limits)
            finally:
                self._timer = threading.Timer(IDLE_S, self.end)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        with self._lock:
            self._stop_timer()
            self._close()

    def _of(self, question: Question, reference: bytes | None) -> WorkerProcess:
        facts = f"{question.start}\n{json.dumps(dict(question.env))}\n".encode()
        started_as = hashlib.blake2b(facts + (reference or b"")).hexdigest()
        if self._process is None or started_as != self._started_as:
            self._close()
            self._folder = ScratchFolder()
            start = json.loads(question.start)
            if reference is not None:
                path = Path(self._folder.path, "reference.npz")
                path.write_bytes(reference)
                start["reference"] = str(path)
            env = {**question.env, "TMPDIR": str(self._folder.path)}
            self._process = WorkerProcess(start, env, warn_once)
            self._started_as = started_as
        return self._process

    def _close(self) -> None:
        if self._process is not None and self._folder is not None:
            self._process.close()
            self._folder.close()
        self._process = self._folder = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Held:
    """The workers of this process, one for each thread that builds, and one that runs candidates.
    A process that was forked has its own."""

    def __init__(self) -> None:
        self._workers: dict[tuple[int, int], _Worker] = {}

    def worker(self, runs: bool) -> _Worker:
        thread = 0 if runs else threading.get_ident()
        return self._workers.setdefault((os.getpid(), thread), _Worker())

    def end(self) -> None:
        for (process, _), worker in list(self._workers.items()):
            if process == os.getpid():
                worker.end()


_HELD = _Held()
atexit.register(_HELD.end)
