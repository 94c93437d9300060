"""What a library is given, and what it gives back: a row with its arrays, and calls by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.peers.kinds import channels_first, channels_last

Call = Callable[[], Any]
"""Computes the output of the row; what it returns is what the library's `as_array` takes."""


class Unsupported(Exception):
    """The library does not do this row; the text says why."""


@dataclass(frozen=True)
class Task:
    """A row for one library.

    inputs     arrays by name, in the order of the arguments
    constants  names of the inputs that may be prepared ahead of the call; the others may not
    out_shape  shape of the output
    threads    how many threads may be used
    options    settings of the run, such as trials and database of the tuner
    """

    kind: str
    sizes: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    constants: tuple[str, ...]
    out_shape: tuple[int, ...]
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def out(self, dtype: Any = np.float32) -> np.ndarray:
        """A new output array, where NumPy puts it."""
        return np.empty(self.out_shape, dtype)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return tuple(self.inputs.values())


def attempt(make: Callable[[], Call]) -> Call:
    """What `make` gives; where making fails, a call that fails so, and other forms are not lost."""
    try:
        return make()
    except Exception as error:
        reason = error

    def fail() -> Any:
        raise reason

    return fail


def choose(table: Mapping[str, Callable[[Task], dict[str, Call]]], task: Task) -> dict[str, Call]:
    """The calls that the maker for this kind of row gives; raises Unsupported without one."""
    if task.kind not in table:
        raise Unsupported(f"no form of {task.kind} is written for it")
    return table[task.kind](task)


def in_channels_first(
    prepare: Callable[[Task], dict[str, Call]],
) -> Callable[[Task], dict[str, Call]]:
    """For a library of NCHW only: convolutions in NHWC as those that it has, of as many bytes.

    The inputs are in its order before the call, and its result is turned as a view.
    """

    def prepared(task: Task) -> dict[str, Call]:
        if not channels_last(task.sizes):
            return prepare(task)
        turned = channels_first(dict(task.inputs))
        n, height, width, channels = task.out_shape
        forms = prepare(
            replace(
                task,
                sizes={**task.sizes, "layout": "NCHW"},
                inputs={name: np.ascontiguousarray(a) for name, a in turned.items()},
                out_shape=(n, channels, height, width),
            )
        )
        return {f"{name} NCHW": _turned(call) for name, call in forms.items()}

    return prepared


def _turned(call: Call) -> Call:
    return lambda: call().transpose(0, 2, 3, 1)
