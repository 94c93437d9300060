"""Values share parts: what looks at an expression looks at each part once, not at each use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule, explain
from backends import resolve, source_text
from schedule import Schedule
from tensorir import PrimFunc, reference, te, verify
from tests.counted import PYTHON, calls

GPU = "cuda -arch=sm_90a"


def steps(count: int) -> PrimFunc:
    """Steps of an iteration in complex numbers, each of which uses its argument four times."""
    a, b = te.placeholder((32,), name="a"), te.placeholder((32,), name="b")

    def value(i: Any) -> Any:
        x, y = a[i], b[i]
        for _ in range(count):
            x, y = (x * x - y * y) * 0.5 + a[i], x * y + b[i]
        return x * x + y * y

    return te.create_prim_func([a, b, te.compute((32,), value, name="o")], name="steps")


LOOKS: dict[str, Callable[[PrimFunc], object]] = {
    "verify": verify,
    "the reference": lambda f: reference(f, *np.ones((2, 32), "float32")),
    "a schedule": lambda f: Schedule(f).split(Schedule(f).get_loops("o")[0], [None, 4]),
    "a default": lambda f: default_schedule(f, "c"),
    "a default for GPUs": lambda f: default_schedule(f, GPU),
    "C": lambda f: source_text(f, resolve("c")),
    "CUDA": lambda f: source_text(default_schedule(f, GPU).func, GPU),
    "what it asks for": lambda f: explain(f, GPU),
}


@pytest.mark.parametrize("name", LOOKS)
def test_work_grows_with_the_parts_and_not_with_their_uses(name: str):
    look = LOOKS[name]
    look(steps(1))  # imports, and what is remembered
    few, some, more = (calls(partial(look, steps(n)), PYTHON) for n in (2, 3, 4))
    assert more - some < 2 * (some - few) + 200, (few, some, more)
