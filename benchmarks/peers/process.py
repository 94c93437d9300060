"""The driver's side of a worker: start it, ask it, and notice when it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers.catalog import PEERS, environment_of

ROOT = Path(__file__).resolve().parent.parent.parent

PATIENCE_S = 5.0
"""What a process gets to end by itself, with its own workers."""


class Gone(Exception):
    """The worker died or did not answer; it has been ended."""


class Process:
    """One library in a process of its own, kept to `threads` processors."""

    def __init__(self, name: str, threads: int, python: Path, start_timeout: float = 120.0) -> None:
        self.name = name
        peer = PEERS[name]
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._child = subprocess.Popen(
            [str(python), "-m", "benchmarks.peers.worker", peer.module, str(threads)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, **environment_of(peer, threads), "PYTHONPATH": str(ROOT)},
            preexec_fn=_keep_to(threads),
        )  # fmt: skip
        try:
            answer = self._answer(start_timeout)
        except Gone:
            self.close()
            raise
        if "error" in answer:
            self.close()
            raise Gone(answer["error"])
        self.version: str = answer["version"]

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """The answer to a request; raises Gone where none comes."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        except (BrokenPipeError, OSError):
            raise Gone(self._ended()) from None
        return self._answer(timeout)

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def close(self) -> None:
        """End the process, by the end of its input if it heeds that."""
        with contextlib.suppress(OSError):
            self._child.stdin.close()  # type: ignore[union-attr]
        try:
            self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for stream in (self._child.stdout, self._log):
            if stream is not None:
                stream.close()

    def _answer(self, timeout: float) -> dict[str, Any]:
        stream = self._child.stdout
        assert stream is not None
        ready, _, _ = select.select([stream], [], [], timeout)
        if not ready:
            self._child.kill()
            raise Gone(f"no answer within {timeout:.0f} s")
        line = stream.readline()
        if not line:
            raise Gone(self._ended())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> str:
        code = self._child.wait()
        self._log.seek(0)
        said = [line for line in self._log.read().splitlines() if line.strip()][-1:]
        return f"its process ended with status {code}" + (f": {said[0][:200]}" if said else "")


def _keep_to(threads: int) -> Any:
    """Libraries that take as many threads as there are processors then take the same number."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    chosen = sorted(os.sched_getaffinity(0))[:threads]

    def keep() -> None:
        os.sched_setaffinity(0, chosen)

    return keep
