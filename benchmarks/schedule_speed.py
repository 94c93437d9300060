"""How long it takes to apply and to lower a schedule of a matrix product, in CPU milliseconds.

    python benchmarks/schedule_speed.py

The schedule has 14 primitives: tiles, a write cache, packed B, vector and unrolled loops, threads.
It is measured where the tiles of 6 x 64 fit, and where they leave a rest in both directions, so
that blocks have predicates and lowering makes separate loops of the rest. Every round starts with
a new definition, of other sizes, so that no memo of the last one helps.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backends import resolve  # noqa: E402
from schedule import Schedule  # noqa: E402
from tensorir import PrimFunc, Target, lower, te  # noqa: E402

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


def main() -> None:
    target = resolve("c")
    for name, sizes in SIZES.items():
        rounds = [measure(matmul(*sizes(number)), target) for number in range(ROUNDS)]
        steps, apply_ms, lower_ms = map(statistics.median, zip(*rounds))
        print(
            f"{name}: apply {steps:.0f} primitives {apply_ms:.2f} ms, lower {lower_ms:.2f} ms "
            f"(medians of {ROUNDS})"
        )


if __name__ == "__main__":
    main()
