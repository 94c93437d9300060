"""The worker process: a child of `autotune.guardian`, spoken to by `process.py`.

It reads one JSON request a line from standard input and writes one answer a line to its original
standard output; whatever a kernel prints goes to standard error instead.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from autotune.collecting import COLLECTED
from autotune.measure.cold import ColdCaches
from autotune.measure.externs import declare
from autotune.measure.job import ERROR_CHARS, Failure, Job
from autotune.measure.reference import Reference


def main() -> None:
    """Answer requests until standard input ends."""
    _no_core_dumps()
    _be_first_to_go()
    _collect_seldom()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    _pass_on_warnings(send)
    start = json.loads(sys.stdin.readline())
    limit = start.get("memory")
    if limit is not None:
        _limit_memory(limit)
    declare(start.get("externs", ()))
    reference = Reference.load(start["reference"]) if start["reference"] else None
    job = Job(
        start["builder"], start["target"], start["definition"], reference, start.get("constants"),
        ColdCaches() if start.get("cold") else None,
    )  # fmt: skip
    for line in sys.stdin:
        send(_answer(job, json.loads(line), lambda phase: send({"phase": phase})))


def _collect_seldom() -> None:
    """What was imported is not looked at again (`autotune/collecting.py`)."""
    gc.freeze()
    gc.set_threshold(COLLECTED)


def _pass_on_warnings(send: Callable[[dict[str, Any]], None]) -> None:
    """Warnings for users go to the tuner, where somebody may read them; others to the log."""
    show = warnings.showwarning

    def pass_on(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            send({"warning": str(message)})
        else:
            show(message, category, *where, **more)

    warnings.showwarning = pass_on


def _answer(job: Job, message: dict[str, Any], announce: Any) -> dict[str, Any]:
    try:
        return getattr(job, message["op"])(message, announce)
    except Failure as failure:
        return failure.answer
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        return {"status": "error", "error": text[-ERROR_CHARS:]}


def _no_core_dumps() -> None:
    """Writing the core of a crashed candidate takes longer than measuring ten others."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _limit_memory(limit: int) -> None:
    """No process from here on may have more bytes of data; what the kernel maps for it counts."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _be_first_to_go() -> None:
    """Where memory runs out all the same, the system shall end us and not the tuner (Linux)."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")
