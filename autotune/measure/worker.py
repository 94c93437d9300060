"""The worker process: `python -m autotune.measure.worker LIFELINE`, spoken to by `process.py`.

It reads one JSON request a line from standard input and writes one answer a line to its original
standard output; whatever a kernel prints goes to standard error instead.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import Any

from autotune.measure.externs import declare
from autotune.measure.job import ERROR_CHARS, Failure, Job
from autotune.measure.reference import Reference


def main(lifeline: int) -> None:
    """Answer requests until standard input ends."""
    tie_to_parent(lifeline)
    _no_core_dumps()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    start = json.loads(sys.stdin.readline())
    declare(start.get("externs", ()))
    reference = Reference.load(start["reference"]) if start["reference"] else None
    job = Job(
        start["builder"], start["target"], start["definition"], reference, start.get("constants")
    )
    for line in sys.stdin:
        send(_answer(job, json.loads(line), lambda phase: send({"phase": phase})))


def _answer(job: Job, message: dict[str, Any], announce: Any) -> dict[str, Any]:
    try:
        return getattr(job, message["op"])(message, announce)
    except Failure as failure:
        return failure.answer
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return {"status": "error", "error": text[-ERROR_CHARS:]}


def tie_to_parent(lifeline: int) -> None:
    """End this process group when the parent is gone, whatever either of them is doing.

    The parent holds the other end of the pipe `lifeline` and never writes. When it ends, the
    kernel sends SIGIO to the whole group: that works even while a candidate hangs with the
    interpreter's lock held. A thread does the same where pipes do not signal.
    """
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | getattr(os, "O_ASYNC", 0))

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(os.getpgrp(), 9)

    threading.Thread(target=watch, daemon=True).start()


def _no_core_dumps() -> None:
    """Writing the core of a crashed candidate takes longer than measuring ten others."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("this program is started by autotune.measure.process")
    main(int(sys.argv[1]))
