"""Cost over size, from the first cache to memory, and from one thread to all processors.

python benchmarks/scale.py [--quick] [--trials N] [--only TEXT] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autotune.machine.machine import this_machine  # noqa: E402
from autotune.measure import machine_lock  # noqa: E402
from autotune.tuning.options import DEFAULT_DATABASE  # noqa: E402
from backends import BuildError, CompiledKernel, Timing, build, interleave, resolve  # noqa: E402
from benchmarks.case import default_schedule, relative_error  # noqa: E402
from benchmarks.limits import Limits, measure_limits  # noqa: E402
from benchmarks.peers.kinds import KINDS, make_inputs, moved_bytes  # noqa: E402
from benchmarks.peers.programs import prim_func  # noqa: E402
from benchmarks.searched import searched  # noqa: E402
from benchmarks.table import plain_table  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "scale.json"
LEAST_BYTES, BEYOND_CACHE = 8 << 10, 4
"""The smallest arrays, together, and how many times the largest cache the largest ones take."""

MOST_FLOPS = 4e10
"""A larger product takes seconds, and its rate is that of the one before."""


def _square(arrays: int) -> Callable[[int], dict[str, int]]:
    def sizes(total: int) -> dict[str, int]:
        side = max(round((total / 4 / arrays) ** 0.5), 1)
        return {"m": side, "n": side}

    return sizes


def _matmul(total: int) -> dict[str, int]:
    side = max(round((total / 12) ** 0.5), 1)
    return {"m": side, "k": side, "n": side}


SIZES: Mapping[str, Callable[[int], dict[str, int]]] = {
    "elementwise": lambda total: {"n": max(total // 20, 1)},
    "row_sum": _square(1),
    "softmax": _square(2),
    "matmul": _matmul,
}
"""By operator: the sizes whose arrays take about so many bytes together."""


@dataclass(frozen=True)
class Point:
    """One operator of one size with one number of threads.

    bytes  of all inputs and the output; `elements` of the output, `flops` of the definition
    limit  the least seconds that the machine allows, and what bounds it
    """

    kind: str
    sizes: Mapping[str, int]
    threads: int
    bytes: int
    elements: int
    flops: int
    timing: Timing
    limit: tuple[float, str]

    @property
    def rate(self) -> float:
        """GFLOP/s where there is arithmetic, else GB/s."""
        return (self.flops or self.bytes) / self.timing.median / 1e9

    @property
    def unit(self) -> str:
        return "GFLOP/s" if self.flops else "GB/s"

    @property
    def share(self) -> float:
        """The least possible time over this one."""
        return self.limit[0] / self.timing.median

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "sizes": dict(self.sizes), "threads": self.threads,
            "bytes": self.bytes, "elements": self.elements, "flops": self.flops,
            "median": self.timing.median, "interval": list(self.timing.interval),
            "blocks": list(self.timing.times), "calls": self.timing.calls,
            "limit_seconds": self.limit[0], "limit": self.limit[1],
        }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 a wrong result, 2 a missing compiler or no such operator."""
    options = _parser().parse_args(argv)
    kinds = [kind for kind in SIZES if all(text in kind for text in options.only)]
    if not kinds:
        print(f"no operator has {options.only!r} in its name; there are {', '.join(SIZES)}")
        return 2
    try:
        seconds = 0.02 if options.quick else 1.0
        limits = {t: measure_limits(t, seconds) for t in thread_counts(this_machine().cores)}
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    points: list[Point] = []
    for kind in kinds:
        for sizes in ladder(kind, options.quick):
            found = measured(kind, sizes, limits, options)
            if found is None:
                return 1
            points += found
        print(table([p for p in points if p.kind == kind]), end="\n\n", flush=True)
    path = options.json or (None if options.quick else RESULTS)
    if path is not None:
        write(path, points)
        print(f"written: {path} and {path.with_suffix('.png')}")
    return 0


def thread_counts(cores: int) -> list[int]:
    """1, 2, 4, ... and all processors."""
    return sorted({*(1 << i for i in range(cores.bit_length()) if 1 << i <= cores), cores})


def ladder(kind: str, quick: bool) -> Iterator[dict[str, int]]:
    """Sizes whose bytes double, from what fits the first cache to what fits no cache."""
    total, last = LEAST_BYTES, BEYOND_CACHE * max(this_machine().caches.values(), default=1 << 25)
    step = 2
    if quick:
        last, step = LEAST_BYTES * 4, 4
    while total <= last:
        sizes = SIZES[kind](total)
        if KINDS[kind].flops(sizes) > MOST_FLOPS:
            return
        yield sizes
        total *= step


def measured(
    kind: str, sizes: Mapping[str, int], limits: Mapping[int, Limits], options: argparse.Namespace
) -> list[Point] | None:
    """The times of all thread counts, taken in turns; None after a wrong result."""
    inputs = make_inputs(kind, sizes)
    expected = KINDS[kind].expected(sizes, inputs)
    kernels = {threads: _kernel(kind, sizes, threads, options) for threads in limits}
    arrays = (*inputs.values(), np.empty(expected.shape, np.float32))
    for threads, kernel in kernels.items():
        arrays[-1].fill(np.nan)
        error = relative_error(kernel(*arrays), expected)
        if not error <= KINDS[kind].tolerance:
            print(f"{kind} {sizes}, {threads} threads: off by {error:.2g}", file=sys.stderr)
            return None
    rounds, min_ms = (3, 0.2) if options.quick else (options.rounds, 5.0)
    with machine_lock():
        timings = interleave([(kernel, *arrays) for kernel in kernels.values()], rounds, min_ms)
    flops, moved = KINDS[kind].flops(sizes), moved_bytes(kind, inputs, expected)
    points = []
    for threads, timing in zip(kernels, timings):
        limit = limits[threads].seconds(flops, moved)
        assert limit is not None  # float32 always has one
        points.append(Point(kind, sizes, threads, moved, expected.size, flops, timing, limit))
    return points


def _kernel(
    kind: str, sizes: Mapping[str, int], threads: int, options: argparse.Namespace
) -> CompiledKernel:
    func, target = prim_func(kind, sizes), resolve(f"c -threads={threads}")
    if not options.trials:
        return build(default_schedule(func, target), target)
    return searched(func, target, options.trials, options.seed, options.database).build()


def table(points: Sequence[Point]) -> str:
    """Rates by size and threads, and what more threads gain over one."""
    header = ["KiB", "sizes", "threads", "us", "+-", "ns/element", "rate", "of limit", "gain"]
    single = {p.bytes: p.timing.median for p in points if p.threads == 1}
    rows = [
        [
            f"{p.bytes / 1024:.0f}", "x".join(map(str, p.sizes.values())), str(p.threads),
            f"{p.timing.median * 1e6:.4g}", f"{p.timing.spread:.1%}",
            f"{p.timing.median / p.elements * 1e9:.3g}", f"{p.rate:.1f} {p.unit}",
            f"{p.share:.0%} {p.limit[1]}", f"{single[p.bytes] / p.timing.median:.2f}x",
        ]
        for p in points
    ]  # fmt: skip
    return plain_table(header, rows, points[0].kind)


def write(path: Path, points: Sequence[Point]) -> None:
    """Write the JSON to `path` and the picture beside it."""
    machine = this_machine()
    data = {"machine": machine.to_json(), "points": [p.to_json() for p in points]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draw(points, path.with_suffix(".png"))


def draw(points: Sequence[Point], path: Path) -> None:
    """One panel an operator: rates over bytes, dashed what the machine allows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    kinds = list(dict.fromkeys(p.kind for p in points))
    figure, panels = plt.subplots(
        1, len(kinds), figsize=(4 * len(kinds), 3.4), layout="constrained", squeeze=False
    )
    for axes, kind in zip(panels[0], kinds):
        chosen = [p for p in points if p.kind == kind]
        for number, threads in enumerate(sorted({p.threads for p in chosen})):
            line = [p for p in chosen if p.threads == threads]
            work = [(p.flops or p.bytes) / p.limit[0] / 1e9 for p in line]
            sizes, color = [p.bytes for p in line], f"C{number}"
            axes.plot(sizes, [p.rate for p in line], "o-", ms=3, color=color, label=f"{threads}")
            axes.plot(sizes, work, "--", linewidth=0.8, color=color)
        for size in this_machine().caches.values():
            axes.axvline(size, color="0.8", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(kind.replace("_", " "), fontsize=10)
        axes.set_xlabel("bytes of all arrays")
        axes.set_ylabel(chosen[0].unit)
    panels[0][0].legend(title="threads", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few small sizes: shows that it works")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="operators")
    parser.add_argument(
        "--trials", type=int, default=0, help="tune each size so; 0 (default): default schedules"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each (default: 15)")
    parser.add_argument("--database", default=DEFAULT_DATABASE, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"(default: {RESULTS.name})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
