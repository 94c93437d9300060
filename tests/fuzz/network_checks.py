"""What a default schedule, or any candidate of a search, makes of a random program: a network of
operators, or expressions that nobody gave a name (`invented_checks.py`)."""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from autotune import default_schedule
from autotune.measure.design import rounds_otherwise
from autotune.measure.oracle import make_oracle
from autotune.measure.reference import Reference
from autotune.rules import make_space
from backends import build, resolve
from schedule import Schedule
from tensorir import Buffer, Const, Costs, PrimFunc, Scalar, TensorIRError, Var, device_of

sys.path.insert(0, str(Path(__file__).parent))
from checks import Mismatch, as_program, check_text  # noqa: E402
from networks import draw  # noqa: E402
from workloads import Workload  # noqa: E402

TARGETS = ["c", "c", "c", "c -march=haswell", "c -march=x86-64", "c -threads=1"]
NUMERICS = ["mixed", "mixed", "reassociated", "bitwise"]
ATTEMPTS = 8
"""Candidates of a space that may be refused by a primitive before that is a finding."""


Make = Callable[[Callable[[list[Any]], Any]], Workload]
"""A random program, of choices."""


class Case:
    """One seed: a program, and how it is scheduled and built."""

    def __init__(self, seed: int, make: Make = draw, targets: list[str] = TARGETS) -> None:
        pick = random.Random(seed).choice
        self.seed = seed
        self.work: Workload = make(pick)
        self.target: str = pick(targets)
        self.numerics: str = pick(NUMERICS)
        self.sampled: bool = pick([False, True])
        self.costs: Costs | None = None
        inputs = [p.name for p in self.work.func.inputs if _tells_its_sizes(p)]
        self.constants = [name for name in inputs[1:] if pick([False, False, True])]
        if not self.target.startswith("c ") and self.target != "c":
            self.constants = []

    def schedule(self) -> Schedule:
        func = self.work.func
        if not self.sampled:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # that another one is taken, or estimates are none
                return default_schedule(
                    func, self.target, self.constants, self.numerics, self.costs
                )
        device = device_of(resolve(self.target), self.costs)
        space = make_space(func, device, self.numerics)
        rng, refused = random.Random(self.seed), ""
        for _ in range(ATTEMPTS):
            try:
                return space.build(space.sample(rng))
            except TensorIRError as error:  # a search counts those and goes on
                refused = str(error)
        raise Mismatch(f"{ATTEMPTS} candidates were refused, the last one by {refused}")

    def check_compiled(self, sch: Schedule) -> None:
        """The kernel's results are within the bounds of the oracle."""
        truth = make_oracle(self.work.func, self.seed, self.work.sizes)
        for wrong in mismatches(sch, self.target, truth, self.constants, rounds_otherwise(sch)):
            raise Mismatch(wrong)


def _tells_its_sizes(p: Buffer) -> bool:
    """Whether sizes follow from an array, as `n` does from one of `n` elements, not `n // 3`."""
    return all(isinstance(size, (Var, Const)) for size in p.shape)


def mismatches(
    sch: Schedule,
    target: str,
    truth: Reference,
    constants: Collection[str] = (),
    otherwise: bool = False,
) -> Iterator[str]:
    """What is wrong with each result of the kernel of a schedule that is further from the oracle's
    than it may be; `otherwise` with the bounds of another algorithm."""
    func = sch.definition
    kernel = build(sch, target, constants={name: truth.inputs[name] for name in constants} or None)
    found = kernel(
        *(
            truth.numbers[a.var.name] if isinstance(a, Scalar) else truth.inputs[a.name]
            for a in func.arguments
            if a not in func.outputs and a.name not in constants
        )
    )
    results = found if isinstance(found, tuple) else (found,)
    for param, result in zip(func.outputs, results, strict=True):
        error, bound, place = truth.error(param.name, result, otherwise)
        if place is not None:
            yield f"{param.name} is off by {error:g} at {place}, more than {bound:g}"


def check_seed(seed: int) -> dict[str, Any]:
    """Everything about one seed, as a row for the fuzzer."""
    return check_case(Case(seed))


def check_case(case: Case) -> dict[str, Any]:
    """Everything about one program, as a row for the fuzzer."""
    seed = case.seed
    row: dict[str, Any] = {"seed": seed, "compiled": 0, "bitwise": 0, "finding": None}
    row["workload"] = "sampled" if case.sampled else "default"
    sch, stage, steps = Schedule(case.work.func), "schedule", Counter[str]()
    try:
        sch = case.schedule()
        steps.update(step.name for step in sch.trace.instructions)
        stage = "text"
        check_text(sch, case.work)
        stage = "compiled"
        case.check_compiled(sch)
        row["compiled"] = 1
    except Exception as error:
        row["finding"] = describe(case, sch, stage, f"{type(error).__name__}: {error}")
    row["asked"] = row["accepted"] = dict(steps)
    return row


def describe(case: Case, sch: Schedule, stage: str, error: str) -> dict[str, Any]:
    """A finding: what went wrong, and a program that shows it."""
    how = f"# target {case.target!r}, numerics {case.numerics!r}, constants {case.constants}\n"
    program = how + as_program(case.work.func, sch.trace, case.work.sizes)
    text = error.splitlines()[0] if error else ""
    return {"seed": case.seed, "stage": stage, "error": text, "program": program}


def check_default(
    func: PrimFunc,
    sizes: dict[str, int] | None = None,
    target: str = "c",
    numerics: str | None = None,
) -> None:
    """A default schedule computes what the oracle of the tuner expects."""
    check_schedule(default_schedule(func, target, numerics=numerics), target, sizes)


def check_schedule(sch: Schedule, target: str = "c", sizes: dict[str, int] | None = None) -> None:
    """A schedule computes what the oracle of the tuner expects of its definition."""
    assert not [*mismatches(sch, target, make_oracle(sch.definition, 0, sizes))]
