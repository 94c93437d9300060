"""Memory of a process that builds a thousand kernels, and of one that makes a thousand schedules.

    python -m benchmarks.tuner.memory [--builds N] [--write-readme]

Each kernel is another program, is called once and dropped. What is resident after half of them and
at the end is compared. All memories of what was computed have bounds, for the process and not for a
program: the largest is that of the steps of schedules (`STEPS` in `schedule/step_memory.py`, some
80 MiB), full after 500 schedules of a convolution; the smaller ones are full after 2,000 of these,
or 5,000 kernels. What a process keeps of everything would go on growing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from autotune.cli.numbers import positive
from autotune.rules import make_space
from backends import ObjectCache, build, resolve
from benchmarks.tuner.section import ROOT, Section, parser_of, publish
from benchmarks.tuner.workloads import WORKLOADS
from tensorir import TensorIRError, device_of, te

BUILDS = 1000
MOST_KIB = 32
"""That a build may leave behind, KiB, while the smaller memories are not full."""

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def kernels(count: int, look: Callable[[], None]) -> None:
    """Build so many programs that differ in a constant, and call each."""
    x = np.ones(64, np.float32)
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        cache = ObjectCache(Path(folder))
        for n in range(count):
            a = te.placeholder((64,), name="a")
            b = te.compute((64,), lambda i, a=a, n=n: a[i] * 2.0 + float(n), name="b")
            kernel = build(te.create_prim_func([a, b], name="scaled"), "c", cache=cache)
            if float(np.asarray(kernel(x))[0]) != 2.0 + n:
                raise SystemExit(f"build {n} computes something else")
            look()


def schedules(count: int, look: Callable[[], None]) -> None:
    """Make so many schedules of a workload, as a search does to choose from them."""
    space = make_space(WORKLOADS["conv2d"](), device_of(resolve("c")))
    rng = random.Random(0)
    for _ in range(count):
        try:
            space.build(space.sample(rng))
        except TensorIRError:
            pass
        look()


KINDS: Mapping[str, Callable[[int, Callable[[], None]], None]] = {
    "kernels": kernels, "schedules": schedules,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where memory grows with every build."""
    options = _parser().parse_args(argv)
    count = 20 if options.quick else options.builds
    if options.child:
        print(json.dumps(resident(options.child, count)))
        return 0
    found = {kind: in_process(kind, count) for kind in KINDS}
    lines, failed = [], []
    for kind, pages in found.items():
        half = count // 2
        each = (pages[-1] - pages[half]) / (count - half)
        mib = [f"{pages[at] / 1024:.0f} MiB" for at in (0, half, -1)]
        lines.append((kind, str(count), *mib, f"{each:.1f} KiB"))
        if each > MOST_KIB and not options.quick:
            failed.append(f"each of {count} {kind} leaves {each:.0f} KiB, {MOST_KIB} are allowed")
    header = ("of", "builds", "after one", "after half", "at the end", "growth of each since")
    title = "memory of a process over its builds, resident"
    return publish(
        Section("tuner-memory", "memory.json", title, header, lines, found, failed=failed), options
    )


def in_process(kind: str, count: int) -> list[int]:
    """KiB that are resident after each build in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.tuner.memory", "--child", kind]
    done = subprocess.run(
        [*words, "--builds", str(count)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr}")
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def resident(kind: str, count: int) -> list[int]:
    """KiB that are resident after each build here."""
    pages: list[int] = []

    def look() -> None:
        if len(pages) % 50 == 0:
            gc.collect()
        pages.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB)

    KINDS[kind](count, look)
    return pages


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.memory", __doc__, seeds=1, trials=1)
    parser.add_argument("--builds", type=positive, default=BUILDS, help=f"({BUILDS})")
    parser.add_argument("--child", choices=tuple(KINDS), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
