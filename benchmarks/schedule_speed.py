"""How long it takes to apply and to lower a schedule of a matrix product, and to make and to lower
what needs none, in CPU milliseconds.

    python benchmarks/schedule_speed.py

The schedule has 14 primitives: tiles, a write cache, packed B, vector and unrolled loops, threads.
It is measured where the tiles of 6 x 64 fit, and where they leave a rest in both directions, so
that blocks have predicates and lowering makes separate loops of the rest. Every round starts with
a new definition, of other sizes, so that no memo of the last one helps.

Then, of operators for both kinds of device: the default schedule, lowering and emitting it, the
space of a search and some schedules of it. Each is the least of a few forks of this process, so
that nothing is known of the operator, and each begins when garbage was just collected: what imports
left would else be looked through in one of them or another.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autotune import default_schedule, search_space  # noqa: E402
from backends import resolve, source_text  # noqa: E402
from schedule import Schedule, ScheduleError  # noqa: E402
from tensorir import PrimFunc, Target, lower, ops, te  # noqa: E402

ROUNDS = 30


def matmul(m: int, n: int, r: int) -> PrimFunc:
    a, b = te.placeholder((m, r), name="A"), te.placeholder((r, n), name="B")
    k = te.reduce_axis(r, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def scheduled(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    i0, i1, j0, j1 = sch.tile(i, j, 6, 64)
    write = sch.cache_write("C", 0, "local")
    sch.reorder(j0, i0, k, i1, j1)
    sch.reverse_compute_at(write, i0)
    packed = sch.cache_read("C", "B", "global")
    sch.compute_at(packed, j0)
    sch.vectorize(j1)
    sch.unroll(i1)
    sch.vectorize(sch.get_loops(write)[-1])
    sch.unroll(sch.get_loops(write)[-2])
    sch.vectorize(sch.get_loops(packed)[-1])
    sch.parallel(j0)
    return sch


SIZES: dict[str, Callable[[int], tuple[int, int, int]]] = {
    "tiles fit": lambda number: (6 * (140 + number), 64 * (40 - number), 1024),
    "tiles leave a rest": lambda number: (6 * (140 + number) + 1, 990 + number, 1024),
}
"""Rows, columns and terms of the product in round `number`."""


def measure(func: PrimFunc, target: Target) -> tuple[int, float, float]:
    """The number of primitives, and milliseconds of this process to apply and to lower them."""
    start = time.process_time()
    sch = scheduled(func)
    middle = time.process_time()
    lower(sch.func, target)
    end = time.process_time()
    return len(sch.trace), (middle - start) * 1e3, (end - middle) * 1e3


TARGETS = ("c -threads=2", "cuda -arch=sm_90a")
FORKS = 3
SAMPLES = 50
"""Schedules of a space."""


def program(make: Callable[..., te.Tensor], *shapes: tuple[int, ...]) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


OPERATORS: dict[str, Callable[[], PrimFunc]] = {
    "matmul 1024": lambda: program(ops.matmul, (1024, 1024), (1024, 1024)),
    "conv 3x3 64x56x56": lambda: program(
        lambda x, w: ops.conv2d(x, w, padding=1), (1, 64, 56, 56), (64, 64, 3, 3)
    ),
    "conv 3x3 56x56x64": lambda: program(
        lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"), (1, 56, 56, 64), (3, 3, 64, 64)
    ),
    "depthwise 3x3 64x56x56": lambda: program(
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1), (1, 64, 56, 56), (64, 1, 3, 3)
    ),
    "max pool 3x3 s2 64x112x112": lambda: program(
        lambda x: ops.max_pool2d(x, 3, 2), (1, 64, 112, 112)
    ),
    "softmax 1024": lambda: program(ops.softmax, (1024, 1024)),
    "layer norm 1024": lambda: program(ops.layer_norm, (1024, 1024), (1024,), (1024,)),
    "attention 8x512x64": lambda: program(ops.attention, *[(1, 8, 512, 64)] * 3),
}


def default_of(name: str, target: str) -> list[float]:
    """Milliseconds of a default schedule, and of lowering and emitting it."""
    func = OPERATORS[name]()
    gc.collect()
    times = [time.process_time()]
    sch = default_schedule(func, target)
    times.append(time.process_time())
    source_text(sch.func, target)
    times.append(time.process_time())
    return [(after - before) * 1e3 for before, after in zip(times, times[1:])]


def space_of(name: str, target: str) -> list[float]:
    """Milliseconds of a space, and of one of its schedules, refused ones among them."""
    func = OPERATORS[name]()
    gc.collect()
    times = [time.process_time()]
    space = search_space(func, target)
    times.append(time.process_time())
    rng = random.Random(0)
    candidates = [space.sample(rng) for _ in range(SAMPLES)]
    start = time.process_time()
    for candidate in candidates:
        try:
            space.build(candidate)
        except ScheduleError:
            pass
    each = (time.process_time() - start) / SAMPLES
    return [(times[1] - times[0]) * 1e3, each * 1e3]


def apart(run: Callable[[str, str], list[float]], *asked: str) -> list[float]:
    """The least times of several forks of this process."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        return [min(times) for times in zip(*[pool.apply(run, asked) for _ in range(FORKS)])]


def operators() -> None:
    for target in TARGETS:  # what is imported only when it is needed
        source_text(default_schedule(program(ops.relu, (8, 8)), target).func, target)
    for target in TARGETS:
        for name in OPERATORS:
            default, text = apart(default_of, name, target)
            space, each = apart(space_of, name, target)
            print(
                f"{target.split()[0]}, {name}: default {default:.1f} ms, text {text:.1f} ms, "
                f"space {space:.0f} ms, each of {SAMPLES} schedules of it {each:.1f} ms",
                flush=True,
            )


def main() -> None:
    target = resolve("c")
    for name, sizes in SIZES.items():
        rounds = [measure(matmul(*sizes(number)), target) for number in range(ROUNDS)]
        steps, apply_ms, lower_ms = map(statistics.median, zip(*rounds))
        print(
            f"{name}: apply {steps:.0f} primitives {apply_ms:.2f} ms, lower {lower_ms:.2f} ms "
            f"(medians of {ROUNDS})"
        )
    operators()


if __name__ == "__main__":
    main()
