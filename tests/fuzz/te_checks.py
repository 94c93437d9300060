"""What is promised of te schedules, checked for one random list of requests."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from te_requests import Drawn, again, in_another_order, legal  # noqa: E402

from schedule import Schedule  # noqa: E402
from schedule.te.errors import RequestError  # noqa: E402
from tensorir import interpret, reference, verify  # noqa: E402

REQUESTS = 14


class Broken(Exception):
    """A promise that did not hold."""


def check(seed: int) -> Drawn:
    """Requests of all kinds: what is refused leaves no trace; errors name a request, its axes, and
    the same ones in any order; the rest computes the definition, and is the same program in any
    order."""
    drawn = Drawn(seed)
    for _ in range(REQUESTS):
        drawn.draw()
    _check_error(drawn)
    drawn.settle()
    s = drawn.s
    text, trace = str(s.func), s.trace
    verify(s.func)
    if str(Schedule(s.prim_func).apply(trace).func) != text:
        raise Broken("the trace gives another program")
    for order in (legal, lambda ask, place: drawn.rng.random(), lambda ask, place: -place):
        other = again(drawn, in_another_order(drawn.asks, order))
        if str(other.func) != text:
            raise Broken(f"another program in another order:\n{text}\n{other.func}")
    _check_values(s, seed)
    s.undo(len(s.requests))
    if str(s.func) != str(s.prim_func) or str(s) != str(drawn.fresh()):
        raise Broken("undo of all left something")
    return drawn


def _check_error(drawn: Drawn) -> None:
    found = _error(drawn.s)
    if found is None:
        return
    if found.request not in drawn.s.requests or found.call != found.request.text:
        raise Broken(f"the error names no request: {found}")
    _check_words(drawn, found)
    other = again(drawn, in_another_order(drawn.asks, lambda ask, place: drawn.rng.random()))
    second = _error(other)
    if second is None or (second.call, second.reason) != (found.call, found.reason):
        raise Broken(f"another error in another order: {found} and {second}")


def _error(s: Any) -> RequestError | None:
    try:
        s.normalize()
    except RequestError as error:
        return error
    return None


def _check_words(drawn: Drawn, error: RequestError) -> None:
    """No name of a loop that the user did not give."""
    cause = getattr(error.cause, "state", None)
    if cause is None:
        return
    own = {axis.name for stage in drawn.s.stages for axis in stage.nest.all_handles()}
    own |= {stage.name for stage in drawn.s.stages} | {t.name for t in drawn.s._params}
    words = re.findall(r"(?<![\w.])\w+(?![\w.])", f"{error.reason} {error.hint or ''}")
    inner = [
        w for w in words if w in cause.loop_names() and w not in own and re.search(r"[_\d]", w)
    ]
    if inner:
        raise Broken(f"the error speaks of {inner}: {error}")


def _check_values(s: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in s.prim_func.inputs]
    numbers = {n.name: bool(rng.integers(2)) if n.dtype == "bool" else 0.5 for n in s.func.scalars}
    expected = reference(s.prim_func, *inputs, sizes=numbers)
    for found, wanted in zip(interpret(s.func, *inputs, sizes=numbers), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def check_seed(seed: int) -> dict[str, Any]:
    """A row for `make fuzz TE=1`."""
    row: dict[str, Any] = {"seed": seed, "compiled": 0, "bitwise": 0, "finding": None}
    row["asked"], row["accepted"], row["workload"] = {}, {}, Drawn(seed).make.__name__
    try:
        drawn = check(seed)
        row["asked"] = dict(drawn.asked)
        row["accepted"] = dict(Counter(ask.name for ask in drawn.asks))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        program = f"tests/fuzz/te_checks.py: check({seed})\n"
        row["finding"] = {"seed": seed, "stage": "te", "error": text, "program": program}
    return row
