"""This project: the schedule that needs no tuning, and the tuned one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from autotune import Database, TuneResult, default_schedule
from backends import CompiledKernel, build, compiler_info, resolve
from benchmarks.peers.kinds import KINDS
from benchmarks.peers.programs import prim_func
from benchmarks.peers.task import Call, Task, attempt
from benchmarks.searched import searched
from tensorir import PrimFunc, Target, int_value
from tensorir.dtype import numpy_dtype

DEFAULT, TUNED = "default", "tuned"


def start(threads: int) -> None:
    """The number of threads is part of the target."""
    compiler_info("c")  # raises, with the remedy, where there is no compiler


def version() -> str:
    return str(compiler_info("c")["version"])


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result)


def prepare(task: Task) -> dict[str, Call]:
    """The default kernel, and with trials the tuned one.

    The same outputs for all, because no two pieces of memory are equally fast.
    """
    func = prim_func(task.kind, task.sizes)
    target = resolve(f"c -threads={task.threads}")
    outs = [np.empty([int_value(s) for s in b.shape], numpy_dtype(b.dtype)) for b in func.outputs]
    held = {name: task.inputs[name] for name in task.constants}
    numerics = KINDS[task.kind].numerics
    kernels: dict[str, Callable[[], CompiledKernel]] = {
        DEFAULT: lambda: build(
            default_schedule(func, target, task.constants, numerics), target, constants=held
        )
    }
    if task.options.get("trials"):
        kernels[TUNED] = lambda: _tuned(task, func, target).build(constants=held)

    def make(form: str) -> Call:
        return _call(task, kernels[form](), outs)

    return {form: attempt(partial(make, form)) for form in kernels}


def _tuned(task: Task, func: PrimFunc, target: Target) -> TuneResult:
    options: Mapping[str, Any] = task.options
    with Database(options["database"]) as database:
        return searched(
            func, target, options["trials"], options["seed"], database,
            constants=task.constants, progress=False,
        )  # fmt: skip


def _call(task: Task, kernel: CompiledKernel, outs: list[np.ndarray]) -> Call:
    given = [a for name, a in task.inputs.items() if name not in task.constants]
    arguments, out = (*given, *outs), outs[0]

    def call() -> np.ndarray:
        kernel(*arguments)
        return out

    return call
