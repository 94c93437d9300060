"""The process of one library: it prepares a row, checks the result, and times blocks of calls.

Requests and answers are lines of JSON on standard input and output. Whatever the library prints
goes to standard error, so that it cannot spoil an answer.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.kinds import bf16_values, tolerance_of
from benchmarks.peers.task import Call, Task, Unsupported

MOST_CALLS = 100_000


class Worker:
    """One library, with the calls of the row at hand."""

    def __init__(self, module: str, threads: int) -> None:
        self.threads = threads
        self.library = importlib.import_module(f"benchmarks.peers.libraries.{module}")
        self.library.start(threads)
        self.forms: dict[str, Call] = {}

    def version(self) -> dict[str, Any]:
        return {"version": self.library.version()}

    def prepare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make the calls of a row, check each, and find how many fill a block of `min_ms`.

        A form that fails, or has a wrong result, is reported and dropped.
        """
        self.release()
        folder, row = Path(request["folder"]), request["row"]
        inputs = {name: np.load(folder / f"{name}.npy") for name in request["inputs"]}
        expected = np.load(folder / "expected.npy")
        task = Task(
            row["kind"], row["sizes"], inputs, tuple(request["constants"]), expected.shape,
            self.threads, request["options"],
        )  # fmt: skip
        begun = time.perf_counter()
        forms = self.library.prepare(task)
        taken = time.perf_counter() - begun
        errors: dict[str, float] = {}
        failed: dict[str, str] = {}
        tolerance = tolerance_of(row["kind"], row["sizes"])
        for name, call in forms.items():
            try:
                errors[name] = error = self.error(call, expected)
            except Exception as reason:  # other forms may work
                failed[name] = _text(reason)
                continue
            if error <= tolerance:
                self.forms[name] = call
            else:
                failed[name] = (
                    f"wrong result: off by {error:.2g} of the largest value, and {tolerance:.2g} "
                    "is allowed"
                )
        calls = {name: _calls(call, request["min_ms"] / 1e3) for name, call in self.forms.items()}
        return {"errors": errors, "failed": failed, "calls": calls, "prepare_seconds": taken}

    def error(self, call: Call, expected: np.ndarray) -> float:
        """The largest error relative to the largest expected value; infinite where it is NaN.

        The call is repeated on a spoiled output where that is an array: what the first call, or
        another form, has left there must not count.
        """
        found = np.asarray(self.library.as_array(call()))
        if found.flags.writeable:
            found.fill(_spoiled(found.dtype))
            found = np.asarray(self.library.as_array(call()))
        if found.dtype == np.uint16:
            found = bf16_values(found)
        difference = np.abs(found.astype(expected.dtype).reshape(expected.shape) - expected)
        error = float(np.max(difference, initial=0)) / (float(np.max(np.abs(expected))) or 1.0)
        return error if math.isfinite(error) else math.inf

    def time(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Seconds per call of one block, after `warm` untimed calls."""
        call, calls = self.forms[request["form"]], request["calls"]
        _block(call, request["warm"])
        return {"seconds": _block(call, calls) / calls}

    def release(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Forget the row and its memory."""
        self.forms = {}
        gc.collect()
        return {}


def _spoiled(dtype: np.dtype) -> Any:
    """What an output is filled with before a call that is checked."""
    if dtype.kind == "b":
        return True
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max


def _calls(call: Call, wanted: float) -> tuple[int, float]:
    """How many calls fill `wanted` seconds, and the seconds of one."""
    count, taken = 1, _block(call, 1)
    while taken < wanted and count < MOST_CALLS:
        count = max(count + 1, math.ceil(count * min(10.0, 1.1 * wanted / max(taken, 1e-9))))
        taken = _block(call, count)
    return count, taken / count


def _block(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def main(module: str, threads: int) -> None:
    """Answer requests until the input ends."""
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                worker = Worker(module, threads)
                answers.write(json.dumps(worker.version()) + "\n")
            except Exception as error:
                answers.write(json.dumps({"error": _text(error)}) + "\n")
                return
            for line in sys.stdin:
                answers.write(json.dumps(_answer(worker, json.loads(line))) + "\n")


def _answer(worker: Worker, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = getattr(worker, request["do"])(request)
        return answer
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:  # of whatever kind: a library's failure is a line in the report
        return {"error": _text(error)}


def _text(error: Exception) -> str:
    first = str(error).strip().split("\n")[0][:300]
    return f"{type(error).__name__}: {first}"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
