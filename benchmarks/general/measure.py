"""One workload: its forms are built, compared with the plain program's result, timed in turns.

Forms that become one machine code with one layout of arguments are timed once, all together: one
that has the code of the plain program takes 1.00 of its time, and no noise says otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autotune import Database, default_schedule
from autotune.measure import machine_lock
from autotune.measure.busy import Neighbours
from backends import (
    Comparison,
    CompiledKernel,
    Timing,
    build,
    compare,
    interleave,
    lasting,
    resolve,
)
from benchmarks.general.code import machine_code
from benchmarks.general.form import Arrays, Form, given, numbers, require_close, restored, work
from benchmarks.general.laws import beside, law
from benchmarks.general.workloads import Workload
from benchmarks.searched import searched
from tensorir import PrimFunc, Target, TensorIRError, dtype
from tensorir.arrays import decode
from tensorir.dtype import numpy_dtype

DEFAULT, TUNED = "default", "tuned"


@dataclass(frozen=True)
class Settings:
    """How to measure.

    threads    of kernels
    trials     of the search, 0 for default schedules alone
    rounds     blocks of each kernel
    min_ms     of a block
    seconds    after which no round of a workload is begun
    """

    threads: int
    trials: int
    rounds: int
    min_ms: float
    seconds: float
    seed: int
    database: str

    @property
    def schedules(self) -> tuple[str, ...]:
        return (DEFAULT, TUNED) if self.trials else (DEFAULT,)


@dataclass(frozen=True)
class Figure:
    """A form's time over the plain program's, by schedules of one kind, in one run.

    work    what it has to do over what the plain program has to: 2 for bytes that are twice as many
    ratio   of times, divided by `work`
    same    whether it is the plain program's machine code: its time is the plain one's
    law     what the ratio may be where no schedule changes that it is more than 1 (`laws.py`)
    """

    kind: str
    name: str
    schedule: str
    timing: Timing
    work: float
    ratio: Comparison
    same: bool = False
    law: float = 1.0


@dataclass(frozen=True)
class Found:
    """What a workload gave.

    plain     by schedule, the plain program's times
    failures  by form and schedule, why there is no time of it
    others    share of the processors that other programs used, None where unknown
    """

    workload: Workload
    plain: Mapping[str, Timing]
    figures: Sequence[Figure]
    failures: Mapping[str, str]
    others: float | None


@dataclass(frozen=True, eq=False)
class _Ready:
    """A kernel with the arrays that it is called with."""

    kernel: CompiledKernel
    arguments: Arrays
    outputs: Arrays

    def __call__(self) -> Arrays:
        self.kernel(*self.arguments, *self.outputs)
        return self.outputs

    @property
    def subject(self) -> tuple[Any, ...]:
        return (self.kernel, *self.arguments, *self.outputs)

    @cached_property
    def does(self) -> Hashable:
        """What two kernels have in common that take the same time: code, and bytes of arguments."""
        code = machine_code(self.kernel)
        sizes = tuple(a.nbytes for a in (*self.arguments, *self.outputs))
        return (self.kernel if code is None else code, sizes)


class _Memory:
    """Outputs of all kernels in the same memory, because no two pieces of it are equally fast: at a
    cache line, as those that kernels make."""

    def __init__(self) -> None:
        self.held: list[np.ndarray[Any, Any]] = []

    def outputs(self, shapes: Sequence[tuple[tuple[int, ...], str]]) -> Arrays:
        made = []
        for n, (shape, kind) in enumerate(shapes):
            count = int(np.prod(shape)) * dtype.itemsize(kind)
            if n == len(self.held):
                self.held.append(np.zeros(0, np.uint8))
            if self.held[n].nbytes < count:
                self.held[n] = lasting((count,), "uint8")
            made.append(self.held[n][:count].view(numpy_dtype(kind)).reshape(shape))
        return made


def measure(workload: Workload, forms: Sequence[Form], settings: Settings) -> Found:
    """The figures of a workload; forms that fail are reported, and others go on."""
    plain = Form("plain", "plain", workload.func)
    arrays, target = numbers(workload.func), resolve(f"c -threads={settings.threads}")
    memory, failures = _largest(workload.func, forms), dict[str, str]()
    ready, made = dict[Any, _Ready](), dict[Any, _Ready]()
    for schedule in settings.schedules:
        base = _ready(plain, workload, arrays, schedule, settings, target, memory)
        ready[plain, schedule] = base
        for form in forms:
            try:
                kernel = _ready(form, workload, arrays, schedule, settings, target, memory)
                share = work(form, workload.func, workload.dense)
                for part in (*form.parts, *beside(form, workload.func, share)):
                    if part not in made:
                        made[part] = _part(part, workload.func, settings, target, memory)
                _check(form, workload, kernel, base, [made[p] for p in form.parts], arrays)
            except Exception as error:  # a fault of ours must not hide the other forms
                said = str(error).partition("\n")[0]
                if not isinstance(error, TensorIRError):
                    said = f"{type(error).__name__}: {said}"
                failures[f"{form.name}, {schedule}"] = said
                continue
            ready[form, schedule] = kernel
    neighbours = Neighbours()
    every = {**ready, **made}
    different: dict[Hashable, tuple[Any, ...]] = {}
    for each in every.values():
        different.setdefault(each.does, each.subject)
    with machine_lock(), neighbours.watching():
        found = interleave(
            list(different.values()), settings.rounds, settings.min_ms, settings.seconds
        )
    times = dict(zip(different, found))
    timed = {key: times[each.does] for key, each in every.items()}
    figures = list(_figures(workload, forms, plain, timed, settings))
    alone = {schedule: timed[plain, schedule] for schedule in settings.schedules}
    return Found(workload, alone, figures, failures, neighbours.share())


def _figures(
    workload: Workload,
    forms: Sequence[Form],
    plain: Form,
    timed: Mapping[Any, Timing],
    settings: Settings,
) -> Iterator[Figure]:
    for schedule in settings.schedules:
        for form in forms:
            timing = timed.get((form, schedule))
            if timing is None:
                continue
            apart = [timed[plain, schedule], *(timed[part] for part in form.parts)]
            whole = Timing(tuple(map(sum, zip(*(t.times for t in apart)))), 1)
            share = work(form, workload.func, workload.dense)
            found = compare(timing, whole)
            ratio = Comparison(found.ratio / share, found.low / share, found.high / share)
            same = timing is timed[plain, schedule] and not form.parts
            alone = {plain.func: timed[plain, schedule], **timed}
            most = law(form, plain.func, share, lambda func, of=alone: of[func].median)
            yield Figure(form.kind, form.name, schedule, timing, share, ratio, same, most)


def _largest(func: PrimFunc, forms: Sequence[Form]) -> _Memory:
    """Memory that is large enough for the outputs of all, so that it is never another one."""
    memory = _Memory()
    for each in (func, *(form.func for form in forms)):
        shapes = [func.outputs[n].const_shape or () for n in range(len(each.outputs))]
        memory.outputs([(s, "float64") for s in shapes])
    return memory


def _ready(
    form: Form,
    workload: Workload,
    arrays: Arrays,
    schedule: str,
    settings: Settings,
    target: Target,
    memory: _Memory,
) -> _Ready:
    """The kernel of a form with its arrays; TensorIRError where it cannot be made."""
    func = form.func
    inputs = given(form, workload.func, arrays)
    held = {func.inputs[n].name: inputs[n] for n in workload.constants}
    if schedule == TUNED:
        sizes = {size.name: _shapes(form, workload.func)[0][0][0] for size in func.size_vars}
        with Database(settings.database) as database:
            result = searched(
                func, target, settings.trials, settings.seed, database, sizes=sizes,
                constants=tuple(held), progress=False,
            )  # fmt: skip
        kernel = result.build(constants=held)
    else:
        kernel = build(default_schedule(func, target, tuple(held)), target, constants=held)
    rest = [a for n, a in enumerate(inputs) if n not in workload.constants]
    return _Ready(kernel, rest, memory.outputs(_shapes(form, workload.func)))


def _shapes(form: Form, plain: PrimFunc) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of a form's outputs, of symbolic ones as in the plain program."""
    return [
        (out.const_shape if out.const_shape is not None else like.const_shape or (), out.dtype)
        for out, like in zip(form.func.outputs, plain.outputs)
    ]


def _part(
    part: PrimFunc, plain: PrimFunc, settings: Settings, target: Target, memory: _Memory
) -> _Ready:
    """What runs beside the plain program, by its default schedule."""
    kernel = build(default_schedule(part, target), target)
    (out,) = part.outputs
    return _Ready(kernel, numbers(part), memory.outputs([(out.const_shape or (), out.dtype)]))


def _check(
    form: Form,
    workload: Workload,
    kernel: _Ready,
    base: _Ready,
    parts: Sequence[_Ready],
    arrays: Arrays,
) -> None:
    """Raise TensorIRError where a form's result is not that of the plain program's kernel."""
    wanted = _expected(form, workload, base, parts, arrays)
    for out in kernel.outputs:
        out.fill(np.nan if out.dtype.kind == "f" else np.iinfo(out.dtype).max)
    found = restored(form, workload.func, kernel())
    require_close(form.func.outputs, found, wanted)


def _expected(
    form: Form, workload: Workload, base: _Ready, parts: Sequence[_Ready], arrays: Arrays
) -> Arrays:
    """What the plain program's kernel gives, between those of the parts that a form has."""
    plain = Form("plain", "plain", workload.func)
    if not parts:
        return [a.astype(np.float64) for a in restored(plain, workload.func, base())]
    before, after = parts
    inputs = list(base.arguments)
    inputs[form.fed - sum(n < form.fed for n in workload.constants)] = before.kernel(
        arrays[form.fed]
    )
    made = base.kernel(*inputs)
    outputs = list(made) if isinstance(made, tuple) else [made]
    rest = [a.astype(np.float64) for a in restored(plain, workload.func, outputs)[1:]]
    largest = decode(after.kernel(outputs[0]), form.func.outputs[0].dtype)
    return [largest.astype(np.float64), *rest]
