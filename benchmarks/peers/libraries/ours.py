"""This project: the schedule that needs no tuning, those of the library, and the tuned one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from autotune import Database, default_schedule, tune
from backends import CompiledKernel, build, compiler_info, resolve
from benchmarks.peers.programs import prim_func
from benchmarks.peers.scheduled import library_schedule
from benchmarks.peers.task import Call, Task, attempt
from tensorir import PrimFunc, Target

DEFAULT, LIBRARY, TUNED = "default", "library", "tuned"
OUT_DTYPES = {"int8_matmul": np.int32, "bf16_matmul": np.uint16}


def start(threads: int) -> None:
    """The number of threads is part of the target."""
    compiler_info("c")  # raises, with the remedy, where there is no compiler


def version() -> str:
    return str(compiler_info("c")["version"])


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result)


def prepare(task: Task) -> dict[str, Call]:
    """The default kernel, the library's where it has one, and with trials the tuned one.

    One output for all, because no two pieces of memory are equally fast.
    """
    func = prim_func(task.kind, task.sizes)
    target = resolve(f"c -threads={task.threads}")
    out = task.out(OUT_DTYPES.get(task.kind, np.float32))
    known = library_schedule(task.kind, task.sizes, target)
    forms = [LIBRARY] if known is not None else []
    forms += [TUNED] if task.options.get("trials") else []

    def make(form: str) -> Call:
        return _call(task, FORMS[form](task, func, target), out)

    return {form: attempt(partial(make, form)) for form in (DEFAULT, *forms)}


def _default(task: Task, func: PrimFunc, target: Target) -> CompiledKernel:
    schedule = default_schedule(func, target, task.constants or ())
    return build(schedule, target, constants=_held(task))


def _library(task: Task, func: PrimFunc, target: Target) -> CompiledKernel:
    schedule = library_schedule(task.kind, task.sizes, target)
    return build(schedule, target, constants=_held(task))


def _tuned(task: Task, func: PrimFunc, target: Target) -> CompiledKernel:
    options: Mapping[str, Any] = task.options
    with Database(options["database"]) as database:
        result = tune(
            func, target, options["trials"], options["seed"], database,
            constants=task.constants or (), progress=False,
        )  # fmt: skip
    return result.build(constants=_held(task))


FORMS: dict[str, Callable[[Task, PrimFunc, Target], CompiledKernel]] = {
    DEFAULT: _default,
    LIBRARY: _library,
    TUNED: _tuned,
}


def _call(task: Task, kernel: CompiledKernel, out: np.ndarray) -> Call:
    held = task.constants or ()
    arguments = (*(a for name, a in task.inputs.items() if name not in held), out)

    def call() -> np.ndarray:
        kernel(*arguments)
        return out

    return call


def _held(task: Task) -> dict[str, np.ndarray]:
    """The weights, where they are known ahead of the call."""
    return {name: task.inputs[name] for name in task.constants or ()}
