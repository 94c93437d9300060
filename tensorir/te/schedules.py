"""te.create_schedule and te.thread_axis: how schedules were begun in TVM's tensor expressions.

The schedules live in the package `schedule`, which stands above this one: it is asked for by what
the program has imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from tensorir.errors import TensorIRError


def create_schedule(ops: Any, args: Any = None, name: str = "main") -> Any:
    """A schedule of the computes that `ops`, operations or tensors, need; stages are `s[C]`.

    `args` are the parameters in call order; without them, all placeholders in order of appearance,
    then the outputs. See schedule.create_schedule. Needs `import schedule`.
    """
    package = sys.modules.get("schedule")
    if package is None:
        raise TensorIRError("te.create_schedule needs the package schedule: import schedule first")
    return package.create_schedule(ops, args, name)


@dataclass(frozen=True)
class ThreadAxis:
    """An axis of threads on a GPU, for `s[C].bind(x, te.thread_axis("threadIdx.x"))`."""

    name: str


def thread_axis(dom: Any = None, tag: str | None = None) -> ThreadAxis:
    """The thread axis `tag`; an extent, which TVM let one give first, comes from the loop."""
    name = dom if isinstance(dom, str) else tag
    if not isinstance(name, str):
        raise TensorIRError("thread_axis needs a name such as 'threadIdx.x'")
    return ThreadAxis(name)
