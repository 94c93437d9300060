"""Everything that one random schedule has to keep, and the shortest trace that breaks it."""

from __future__ import annotations

import dataclasses
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends import build
from schedule import Schedule, Trace, minimize
from tensorir import (
    PrimFunc,
    TensorIRError,
    Var,
    const,
    dtype,
    int_value,
    interpret,
    parse,
    prove,
    substitute,
)

sys.path.insert(0, str(Path(__file__).parent))
from loop_requests import on_cpu  # noqa: E402
from odd_requests import OddStress  # noqa: E402
from random_schedules import Stress  # noqa: E402
from workloads import Workload, draw  # noqa: E402

SANITIZERS = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
NO_CONTRACTION = "-ffp-contract=off"
"""Without it gcc turns a * b + c into one rounding wherever both happen to meet in one statement,
and which ones meet depends on the schedule; the last bits then differ for no fault of ours."""

MAX_STEPS = 16

MINIMIZE_SECONDS = 60
"""After that a finding is reported as short as it is by then."""


class Mismatch(Exception):
    """A schedule that computes something else, or that does not print or replay."""


@dataclass
class Case:
    """One seed: its workload, the requests that were made of it, and the schedule they gave."""

    seed: int
    work: Workload
    stress: Stress
    sch: Schedule


Check = Callable[[Schedule, Workload], object]
"""Raises where the schedule breaks what it has to keep."""


def make_case(seed: int, odd: bool = False) -> Case:
    """The workload of `seed`, not yet scheduled; `odd` for requests with any arguments."""
    pick = random.Random(seed).choice
    work = draw(pick)
    stress = OddStress(pick) if odd else Stress(pick)
    return Case(seed, work, stress, Schedule(work.func))


def apply_requests(case: Case) -> None:
    """Ask for up to MAX_STEPS primitives, as the seed has it."""
    case.stress.run(case.sch, case.stress.pick(list(range(1, MAX_STEPS + 1))))


def inputs_of(work: Workload, seed: int, fractions: bool = False) -> list[Any]:
    """Arrays for the inputs: small integers, or (float inputs only) numbers of all sizes."""
    rng = np.random.default_rng(seed)
    found = []
    for p in work.func.inputs:
        shape = tuple(_size(s, work.sizes) for s in p.shape)
        if fractions and dtype.is_float(p.dtype):
            found.append(rng.standard_normal(shape).astype(p.dtype))
        else:
            found.append(rng.integers(-work.high, work.high + 1, shape).astype(p.dtype))
    return found


def _size(e: Any, sizes: dict[str, int]) -> int:
    value = int_value(substitute(e, {Var(name): const(n) for name, n in sizes.items()}))
    assert value is not None, f"{e!r} has a size that was not drawn"
    return value


def check_text(sch: Schedule, work: Workload) -> None:
    """The program is proved to be what schedules are made of, as one from elsewhere would have to
    be; it prints and parses, and its trace replays from JSON and Python."""
    prove(sch.func)
    text = str(sch.func)
    if str(parse(text)) != text:
        raise Mismatch("the printed program parses to another one")
    from_json = Trace.from_json(sch.trace.dumps())
    if str(Schedule(work.func).apply(from_json).func) != text:
        raise Mismatch("the trace replays from JSON to another program")
    steps = [(step.name, step.args) for step in from_json.instructions]
    from_python = Trace.from_python(sch.trace.as_python())
    if [(step.name, step.args) for step in from_python.instructions] != steps:
        raise Mismatch("the Python text of the trace reads as another trace")


def check_interpreted(sch: Schedule, work: Workload, seed: int) -> None:
    """The interpreter, which checks every index and every read, agrees with the reference."""
    inputs = inputs_of(work, seed)
    expected = work.expected(inputs)
    _compare(sch, interpret(sch.func, *inputs, sizes=work.sizes), expected, "the interpreter")


def check_races(sch: Schedule, work: Workload, seed: int) -> None:
    """No two iterations of a parallel, vector or thread loop meet in one element."""
    interpret(sch.func, *inputs_of(work, seed), sizes=work.sizes, races=True)


def check_compiled(sch: Schedule, work: Workload, seed: int) -> None:
    """Compiled C agrees with the reference."""
    inputs = inputs_of(work, seed)
    expected = work.expected(inputs)
    _compare(sch, _run_compiled(sch, inputs, work.sizes), expected, "compiled C")


def check_bits(sch: Schedule, work: Workload, seed: int) -> bool:
    """A bitwise schedule gives the bits of the unscheduled kernel; False if it is none."""
    if sch.numerics != "bitwise":
        return False
    inputs = inputs_of(work, seed, fractions=True)
    with compiler_flags(NO_CONTRACTION):
        plain = _run_compiled(work.func, inputs, work.sizes)
        found = _run_compiled(sch, inputs, work.sizes)
    for a, b in zip(plain, found, strict=True):
        if a.tobytes() != b.tobytes():
            worst = np.abs(a.astype("float64") - b.astype("float64")).max()
            raise Mismatch(f"a bitwise schedule gives other bits (largest difference {worst:g})")
    return True


@contextmanager
def compiler_flags(flags: str) -> Iterator[None]:
    """Kernels built inside are compiled with `flags` as well."""
    before = os.environ.get("CC")
    os.environ["CC"] = f"{before or 'gcc'} {flags}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CC"]
        else:
            os.environ["CC"] = before


def sanitizer_environment() -> dict[str, str]:
    """Variables for a process whose kernels are compiled with gcc's sanitizers."""
    compiler = os.environ.get("CC", "gcc")
    found = [
        subprocess.run(
            [*shlex.split(compiler), f"-print-file-name={name}"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]  # fmt: skip
    return {
        "CC": f"{compiler} {SANITIZERS}",
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def shortest(case: Case, check: Check) -> Schedule:
    """The shortest steps, on the smallest program, for which `check` still fails."""
    end = time.monotonic() + MINIMIZE_SECONDS

    def fails(sch: Schedule) -> bool:
        if time.monotonic() > end:
            return False
        try:
            check(sch, dataclasses.replace(case.work, func=sch.definition))
        except Exception:
            return True
        return False

    try:
        return minimize(case.sch, fails).schedule
    except TensorIRError:  # it does not fail a second time
        return case.sch


def as_program(func: PrimFunc, trace: Trace, sizes: dict[str, int]) -> str:
    """Python text that makes the schedule again, and the sizes with which it failed."""
    return (
        "from schedule import Schedule\nfrom tensorir import parse\n"
        f"sch = Schedule(parse('''\n{func}\n'''))\n{trace.as_python()}\n"
        + (f"sizes = {sizes}\n" if sizes else "")
    )


def _run_compiled(program: Any, inputs: list[Any], sizes: dict[str, int]) -> tuple[Any, ...]:
    func = program.func if isinstance(program, Schedule) else program
    numbers = {scalar.name: sizes[scalar.name] for scalar in func.scalars}
    result = build(on_cpu(func))(*inputs, **numbers)
    return result if isinstance(result, tuple) else (result,)


def _compare(sch: Schedule, found: Any, expected: Any, who: str) -> None:
    for a, b in zip(found, expected, strict=True):
        near = 1e-5
        if sch.numerics == "algebraic":  # errors are in parts of the largest value
            near *= float(np.max(np.abs(b), initial=1.0))
        if not np.allclose(a, b, rtol=1e-4, atol=near, equal_nan=True):
            differ = int((~np.isclose(a, b, rtol=1e-4, atol=near, equal_nan=True)).sum())
            raise Mismatch(f"{who} gives other values in {differ} of {b.size} places")
