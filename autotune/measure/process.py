"""A worker process behind pipes: it may crash or hang, and the caller only gets an answer.

Requests and answers are JSON lines. The worker has a session of its own, so that Ctrl-C reaches
only us, and a parent (`autotune.guardian`) that ends it and all that came of it when we say so, and
when we are gone.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from autotune.errors import MeasureError
from autotune.guardian import END_SECONDS
from backends import describe_status

STDERR_CHARS = 2000

STEP = 2.0
"""Seconds after which who waits looks at the clock."""


@dataclass(frozen=True)
class Reply:
    """`outcome` is "answer", "died" or "timeout"; `phase` is what the worker did last."""

    outcome: str
    phase: str
    data: Mapping[str, Any]
    error: str = ""


class Deadline:
    """Seconds that a phase may take while this process runs.

    Those in which it stood still do not count, as after Ctrl-Z or in a container that was frozen:
    the worker may have stood still with it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._seen = clock, clock()
        self._end = self._seen + seconds

    def met(self, ready: Callable[[float], object]) -> bool:
        """Whether something is `ready` in time, which waits for at most so many seconds."""
        wait = 0.0
        while True:
            now = self._clock()
            late = now - self._seen - wait
            self._end += late if late > STEP else 0.0
            self._seen, wait = now, max(0.0, min(STEP, self._end - now))
            if ready(wait):
                self._seen = self._clock()
                return True
            if not wait:
                return False


class WorkerProcess:
    """One worker, started by `start` or the first request, and again after it died or was killed.

    start_message  sent first to every new process
    env            environment variables on top of ours
    warn           told what the worker warns of, as it warns
    """

    def __init__(
        self,
        start_message: Mapping[str, Any],
        env: Mapping[str, str],
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.start_message = start_message
        self.env = env
        self._warn = warn
        self.candidates = 0
        """Those that the present process has built or run. It makes many more only to tell their
        features, of which little stays, and a new process would have to make the space again."""
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._log: IO[bytes] | None = None
        self._pending = b""
        self._closed = False
        self._state = threading.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, if there is none: it begins while nobody waits for it.

        Raises MeasureError where no process can be started.
        """
        if self._closed:
            raise MeasureError("the measuring worker is closed")
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()
        try:
            process = self._popen()
        except OSError as error:
            raise MeasureError(
                f"the measuring worker cannot be started: {error.strerror or error}; make room, "
                "in memory and in the temporary folder (TMPDIR)"
            ) from error
        with self._state:
            self._process = process
        if self._closed:
            self.kill()
            raise MeasureError("the measuring worker is closed")
        self._send(self.start_message)

    def request(self, message: Mapping[str, Any], limits: Mapping[str, float]) -> Reply:
        """Send a message and wait for its answer.

        `limits` gives the seconds that each phase may take; a phase begins when the worker names
        it, the first one ("start") at once. A worker that is late is killed. Where one died, a new
        one is asked the same: only what ends that one too is to blame. The first may have been
        spoiled by what it did before, or killed from outside, as where memory ran out.
        """
        reply = self._ask(message, limits)
        if reply.outcome == "died" and not self._closed:
            reply = self._ask(message, limits)
        return reply

    def _ask(self, message: Mapping[str, Any], limits: Mapping[str, float]) -> Reply:
        self.start()
        if not self._send(message):
            return self._bury("start")
        phase, deadline = "start", Deadline(limits["start"])
        while True:
            line = self._read_line(deadline)
            if line is None:
                self.kill()
                return Reply("timeout", phase, {}, self._stderr())
            if not line:
                return self._bury(phase)
            data = json.loads(line)
            if "warning" in data:
                if self._warn is not None:
                    self._warn(data["warning"])
                continue
            if "phase" not in data:
                self.candidates += message.get("op") != "features"
                return Reply("answer", phase, data)
            phase = data["phase"]
            deadline = Deadline(limits[phase])

    def kill(self) -> None:
        """End the process and all that came of it; the next request starts a new one."""
        with self._state:
            process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_SECONDS + 1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close_quietly(pipe)
        os.close(self._lifeline)

    def interrupt(self) -> None:
        """From another thread: end the process for good; the thread in `request` gets a reply."""
        with self._state:
            self._closed = True
            process = self._process
        if process is not None:
            process.terminate()

    def close(self) -> None:
        """End the process for good; a later request raises MeasureError."""
        self._closed = True
        self.kill()
        if self._log is not None:
            self._log.close()

    def _popen(self) -> subprocess.Popen[bytes]:
        if self._log is None:
            self._log = tempfile.TemporaryFile()
        self._log.truncate(0)
        self._pending, self.candidates = b"", 0
        read_end, self._lifeline = os.pipe()
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "autotune.guardian", str(read_end)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    **self.env,
                },
                pass_fds=(read_end,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(read_end)

    def _send(self, message: Mapping[str, Any]) -> bool:
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def _read_line(self, deadline: Deadline) -> bytes | None:
        """The next line; b"" when the worker is gone, None when the deadline has passed."""
        process = self._process
        if process is None or process.stdout is None:
            return b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not deadline.met(selector.select):
                    return None
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return b""
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _bury(self, phase: str) -> Reply:
        """The reply for a process that is gone."""
        process = self._process
        code = None
        if process is not None:
            try:
                code = process.wait(5.0)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        text = f"the process {describe_status(code)}\n{self._stderr()}"
        return Reply("died", phase, {}, text.strip())

    def _stderr(self) -> str:
        if self._log is None or self._log.closed:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - STDERR_CHARS))
        return self._log.read().decode(errors="replace").strip()


def warn_once(text: str) -> None:
    """Pass on the warning of a worker; Python shows one text once."""
    warnings.warn(text, stacklevel=2)


def _close_quietly(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        pass
