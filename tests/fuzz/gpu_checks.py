"""What is asked of a random schedule for GPUs: no race, no lost value, the same result, and the
same again after lowering, thread by thread; as a text it is held to the same rules."""

from __future__ import annotations

from typing import Any

import gpu_traces
import numpy as np
from thread_races import race, unseen

from tensorir import (
    ForKind,
    PrimFunc,
    Target,
    interpret,
    lower,
    parse,
    prove,
    reference,
    specialize,
)

TARGET = Target.parse("cuda")
ROWS = 5
"""Of a symbolic size."""


class Broken(AssertionError):
    """A schedule that was accepted and is wrong."""


def check(seed: int, lowered: bool = True) -> gpu_traces.Trace:
    """Draw a schedule and check it; raises what is wrong."""
    trace = gpu_traces.Trace(seed)
    func, sizes = trace.sch.func, {}
    if func.size_vars:
        sizes = {v.name: ROWS for v in func.size_vars}
    numbers = numbers_of(func)
    if str(parse(str(func))) != str(func):
        raise Broken("the text is read otherwise")
    prove(parse(str(func)))
    small = specialize(func, sizes | numbers) if sizes or numbers else func
    for found in (race(small), unseen(small)):
        if found is not None:
            raise Broken(found)
    inputs = inputs_of(func, sizes, seed)
    wanted = reference(trace.sch.definition, *inputs, sizes=numbers)
    _compare("the program", interpret(func, *inputs, sizes=numbers), wanted)
    if lowered and any(loop.kind is ForKind.THREAD for loop in trace.sch.state.loops()):
        low = lower(func, TARGET)
        flat = [x.ravel() for x in inputs]
        found = interpret(low, *flat, sizes=sizes | numbers, races=True)
        _compare("the lowered program", found, [w.ravel() for w in wanted])
    return trace


def numbers_of(func: PrimFunc) -> dict[str, Any]:
    """Values of the numbers among the arguments."""
    return {scalar.name: 0.5 - n for n, scalar in enumerate(func.scalars)}


def inputs_of(func: PrimFunc, sizes: dict[str, int], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = [[getattr(e, "value", None) for e in p.shape] for p in func.inputs]
    rows = next(iter(sizes.values()), 0)
    return [
        rng.integers(-3, 4, [rows if n is None else n for n in shape]).astype(p.dtype)
        for p, shape in zip(func.inputs, shapes)
    ]


def _compare(what: str, found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        if not np.allclose(a, b, 1e-5, 1e-5):
            raise Broken(f"{what} computes other values")


def check_seed(seed: int) -> dict[str, Any]:
    """A row for `make fuzz GPU=1`."""
    row: dict[str, Any] = {"seed": seed, "compiled": 0, "bitwise": 0, "finding": None}
    row["asked"], row["accepted"], row["workload"] = {}, {}, ""
    try:
        trace = check(seed)
        row["asked"], row["accepted"] = dict(trace.asked), dict(trace.accepted)
        row["workload"] = trace.name
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        program = f"tests/fuzz/gpu_checks.py: check({seed})\n"
        row["finding"] = {"seed": seed, "stage": "gpu", "error": text, "program": program}
    return row
