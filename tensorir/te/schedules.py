"""te.create_schedule and te.thread_axis: how schedules were begun in TVM's tensor expressions.

The schedules live in the package `schedule`, which stands above this one: it is asked for by what
the program has imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc


def create_schedule(ops: Any, args: Any = None, name: str = "main") -> Any:
    """A schedule of the computes that `ops`, operations or tensors, need; stages are `s[C]`.

    `args` are the parameters in call order; without them, all placeholders in order of appearance,
    then the outputs. See schedule.create_schedule. Needs `import schedule`.
    """
    package = sys.modules.get("schedule")
    if package is None:
        raise TensorIRError("te.create_schedule needs the package schedule: import schedule first")
    return package.create_schedule(ops, args, name)


def lower(sch: Any, args: Any = None, name: str = "main", simple_mode: bool = False) -> PrimFunc:
    """The program that a schedule comes to: print it, or build it.

    `args` are its parameters in call order, inputs first, if they are to be others than those that
    create_schedule was given. `simple_mode` is TVM's, whose programs print in two ways.
    """
    if hasattr(sch, "lower"):
        return sch.lower(args, name)  # type: ignore[no-any-return]
    func = getattr(sch, "func", sch)
    if not isinstance(func, PrimFunc):
        raise TensorIRError(f"te.lower of {sch!r}; give it what te.create_schedule returned")
    if args is not None:
        raise TensorIRError("te.lower takes args for a schedule of te.create_schedule only")
    return func


@dataclass(frozen=True, eq=False)
class ThreadAxis:
    """An axis of threads on a GPU, for `s[C].bind(x, te.thread_axis("threadIdx.x"))`."""

    name: str
    label: str = ""


def thread_axis(dom: Any = None, tag: str | None = None, name: str = "") -> ThreadAxis:
    """The thread axis `tag`; an extent, which TVM let one give first, comes from the loop.

    Each axis made with the tag "vthread" is one of its own: vthread.x, .y and .z, in the order in
    which loops are bound to them. `name` is for people.
    """
    axis = dom if isinstance(dom, str) else tag
    if not isinstance(axis, str):
        raise TensorIRError("thread_axis needs a name such as 'threadIdx.x'")
    return ThreadAxis(axis, name)
