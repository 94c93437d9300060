"""Six small programs of different kinds, and their design spaces."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache

from autotune.rules import default_candidates, make_space
from autotune.space import Space
from backends import resolve
from schedule import Schedule
from tensorir import (
    PrimFunc,
    TensorIRError,
    device_of,
    lower,
    ops,
    program_key,
    structural_hash,
    te,
)

TARGET = resolve("c")


def product() -> PrimFunc:
    a, b = te.placeholder((48, 40), name="A"), te.placeholder((40, 56), name="B")
    return te.create_prim_func([a, b, ops.matmul(a, b)], name="product")


def distances() -> PrimFunc:
    a, b = te.placeholder((40, 24), name="A"), te.placeholder((36, 24), name="B")
    k = te.reduce_axis(24, name="k")
    d = te.compute(
        (40, 36), lambda i, j: te.sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), axis=k), name="D"
    )
    return te.create_prim_func([a, b, d], name="distances")


def banded() -> PrimFunc:
    a, b = te.placeholder((64, 9), name="A"), te.placeholder((72, 48), name="B")
    k = te.reduce_axis(9, name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[i + k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="banded")


def convolution() -> PrimFunc:
    x, w = te.placeholder((1, 4, 6, 6), name="X"), te.placeholder((8, 4, 3, 3), name="W")
    return te.create_prim_func([x, w, ops.conv2d(x, w, padding=1)], name="convolution")


def softmax() -> PrimFunc:
    x = te.placeholder((24, 100), name="X")
    return te.create_prim_func([x, ops.softmax(x)], name="softmax")


def blur() -> PrimFunc:
    x = te.placeholder((40, 60), name="X")
    h = te.compute((40, 58), lambda i, j: x[i, j] + x[i, j + 1] * 2.0 + x[i, j + 2], name="H")
    v = te.compute((38, 58), lambda i, j: h[i, j] + h[i + 1, j] * 2.0 + h[i + 2, j], name="V")
    return te.create_prim_func([x, v], name="blur")


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    f.__name__: f for f in (product, distances, banded, convolution, softmax, blur)
}


@cache
def space_of(name: str) -> Space:
    return make_space(PROGRAMS[name](), device_of(TARGET))


def lowered(schedule: Schedule) -> str:
    """The lowered program, but for names."""
    return structural_hash(lower(schedule.func, TARGET))


def key(schedule: Schedule) -> str:
    return program_key(schedule.func)


def walked(space: Space, count: int, seed: int) -> Iterator[Schedule]:
    """Schedules of candidates that differ in one choice or two, where they can be built."""
    rng = random.Random(seed)
    at = default_candidates(space)[0]
    while count:
        at = space.mutate(at, rng) if rng.random() < 0.8 else space.sample(rng)
        try:
            yield space.build(at)
        except TensorIRError:
            continue
        count -= 1
