"""Translation validation: does a schedule compute what its definition does, on a small instance?

Debug mode asks this after every primitive. Both programs run in the interpreter on small integers,
which every order of summation adds up alike; the schedule runs once as written, which finds reads
outside of buffers and of what was never written, and once with its buffers placed as by lowering,
which finds races. Large extents are shrunk first and the steps replayed on the smaller program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schedule.debug.minimize import as_script, minimize, replay
from schedule.debug.resize import capped, work
from schedule.instruction import Instruction
from schedule.schedule import Schedule
from tensorir import (
    Const,
    Number,
    Numbers,
    PrimFunc,
    TensorIRError,
    dtype,
    int_value,
    interpret,
    substitute,
)

LIMIT = 100_000
"""Statements that the interpreter may execute for one validation: a fraction of a second."""

CAPS = (13, 24, 40, 72)
"""Extents that a large program is brought near; the first at which the same steps apply."""

SIZES = ((7, 5, 3, 6), (1, 1, 1, 1))
"""Values of symbolic sizes, in order of appearance; repeated where there are more."""

Array = np.ndarray[Any, Any]


class MiscompiledError(TensorIRError):
    """A primitive changed what a program computes: a bug in this project, not in the request.

    `schedule` is the shortest schedule that shows it.
    """

    def __init__(self, step: Instruction, reason: str, schedule: Schedule) -> None:
        super().__init__(step, reason, schedule)
        self.step, self.reason, self.schedule = step, reason, schedule

    def __str__(self) -> str:
        return (
            f"{self.step} was accepted and changed what the program computes: {self.reason}\n"
            "This is a bug in the primitive, not in your request. The schedule is as it was "
            f"before the call. To reproduce it:\n{as_script(self.schedule)}"
        )


def validate(sch: Schedule) -> None:
    """Raise MiscompiledError, with the shortest steps that show it, if `sch` went wrong."""
    for small in instances(sch):
        reason = difference(small)
        if reason is not None:
            found = _shortest(small)
            raise MiscompiledError(sch.trace.instructions[-1], difference(found) or reason, found)


def _shortest(sch: Schedule) -> Schedule:
    try:
        return minimize(sch, lambda tried: difference(tried) is not None, limit=300).schedule
    except TensorIRError:  # the steps do not fail when they are replayed
        return sch


def instances(sch: Schedule) -> list[Schedule]:
    """The schedule itself where it is small; else its steps on smaller extents.

    Those are replayed as they are, and once more with smaller factors, so that tiles stay smaller
    than extents. Empty where no smaller program takes all of the steps.
    """
    known = _sizes(sch.definition, SIZES[0])
    if work(sch.definition, known) + work(sch.func, known) <= LIMIT:
        return [sch]
    steps = sch.trace.instructions
    found: list[Schedule] = []
    for wanted in (steps, [_with_small_factors(step) for step in steps]):
        for cap in CAPS:
            func = capped(sch.definition, cap)
            if func is None or work(func, known) > LIMIT:
                continue
            small = replay(func, wanted)
            if len(small.trace) == len(steps) and work(small.func, known) <= LIMIT:
                found.append(small)
                break
    return found


def _with_small_factors(step: Instruction) -> Instruction:
    return Instruction(step.name, {k: _small(v) for k, v in step.args.items()}, step.outputs)


def _small(value: Any) -> Any:
    if isinstance(value, list):
        return [_small(v) for v in value]
    return 3 if isinstance(value, int) and value > 3 else value


def difference(sch: Schedule) -> str | None:
    """How `sch` and its definition differ on small inputs; None if they agree."""
    definition = sch.definition
    for values in SIZES if definition.size_vars else SIZES[:1]:
        sizes = _sizes(definition, values)
        for top in (4, 0):
            inputs = _inputs(definition, sizes, top)
            try:
                expected = interpret(definition, *inputs, precise=True, sizes=sizes)
            except TensorIRError:
                continue  # these inputs or sizes mean nothing to the program
            reason = _compare(sch.func, definition, inputs, expected, sizes)
            if reason is not None:
                return reason
            break
    return None


def _compare(
    func: PrimFunc,
    definition: PrimFunc,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    sizes: Numbers,
) -> str | None:
    for races in (False, True):
        try:
            found = interpret(func, *inputs, precise=True, sizes=sizes, races=races)
        except TensorIRError as error:
            return str(error)
        for param, got, want in zip(definition.outputs, found, expected, strict=True):
            # Transcendental functions of sums in another order differ by rounding.
            same = np.isclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
            if not same.all():
                at = tuple(int(n) for n in np.argwhere(~same)[0])
                where = f"{param.name}[{', '.join(map(str, at))}]"
                return f"{where} is {got[at]} and should be {want[at]}"
    return None


def _sizes(func: PrimFunc, values: Sequence[int]) -> dict[str, Number]:
    sizes: dict[str, Number] = {}
    sizes.update({v.name: values[n % len(values)] for n, v in enumerate(func.size_vars)})
    # Numbers among the arguments divide sizes, or are distances: small ones leave something to do.
    for n, s in enumerate(func.scalars):
        sizes[s.name] = max(n % 3 + 1, s.least or 0) if s.is_size else _value(s.dtype, n % 3 + 2)
    return sizes


def _value(kind: str, small: int) -> Number:
    """A number that is exact in any type, and not the neutral element of a product."""
    return True if dtype.is_bool(kind) else float(small) if dtype.is_float(kind) else small


def _inputs(func: PrimFunc, sizes: Numbers, top: int) -> list[Array]:
    """Integers from -top to top; not negative where the type is unsigned or an index."""
    rng = np.random.default_rng(0)
    known = {v: Const(sizes[v.name], v.dtype) for v in func.size_vars}
    found = []
    for param in func.given:
        shape = [int_value(substitute(s, known)) or 0 for s in param.shape]
        low = -top if dtype.is_float(param.dtype) else 0
        found.append(_array(rng.integers(low, top + 1, shape), param.dtype))
    return found


def _array(values: Array, kind: str) -> Array:
    if kind == "bfloat16":  # the upper half of the bits of a float32
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.numpy_dtype(kind))
