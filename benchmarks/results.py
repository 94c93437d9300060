"""What comes out of the suite: a table, JSON with all block times, and Markdown for the README."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.calibration.peak import memory_gbps, peak_gflops
from autotune.machine.machine import this_machine
from autotune.measure.busy import disturbance
from backends import Timing, compare, compiler_info, resolve
from benchmarks.case import DEFAULT, TUNED, UNSCHEDULED, Figures
from benchmarks.table import ms, show_table, times

HEADER = (
    "operator", "unscheduled ms", "default ms", "tuned ms", "+-", "library ms", "+-",
    "speed-up over library", "rate", "of peak",
)  # fmt: skip


def environment(trials: int, seed: int) -> dict[str, str]:
    """What the figures depend on, in words."""
    machine, target = this_machine(), resolve("c")
    threads = target.threads or machine.cores
    info = compiler_info("c")
    return {
        "machine": f"{machine.cpu}, {machine.cores} threads, {machine.key}",
        "peak": f"{peak_gflops():.0f} GFLOP/s, {memory_gbps():.0f} GB/s from memory, measured",
        "compiler": f"{info['version']}, {' '.join(info['flags'])}",
        "kernels": f"target {target}, {threads} threads, called from Python",
        "Python": platform.python_version(),
        "library": f"NumPy {np.__version__}, {blas_threads()}",
        "search": f"{trials} trials per operator, seed {seed}",
    }


def blas_threads() -> str:
    """The BLAS of NumPy and its threads, where threadpoolctl can tell."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "threads of its BLAS unknown (threadpoolctl is not installed)"
    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    own = [p for p in pools if "numpy" in p["filepath"]] or pools
    return ", ".join(f"{p['internal_api']} {p['version']}, {p['num_threads']} threads" for p in own)


def show(found: Sequence[Figures]) -> None:
    """Print the table and the geometric mean of the speed-ups."""
    print()
    show_table(HEADER, [_cells(row) for row in found])
    print(f"geometric mean of the speed-ups over the library: {mean_gain(found):.2f}x")
    print("times of a row were taken in turns; +- and [] are 95 % intervals")
    disturbed = disturbance(row.others for row in found)
    if disturbed:
        print(disturbed)


def mean_gain(found: Sequence[Figures]) -> float:
    """The geometric mean of the ratios of the library's times to the tuned kernels'."""
    return math.exp(sum(math.log(row.gain.ratio) for row in found) / len(found))


def as_json(
    facts: Mapping[str, str], found: Sequence[Figures], failures: Sequence[str]
) -> dict[str, Any]:
    """All figures as JSON data; times in seconds per call."""
    return {
        "environment": dict(facts),
        "rows": [_row_json(row) for row in found],
        "geometric_mean_speed_up": mean_gain(found) if found else None,
        "failures": list(failures),
    }


def as_markdown(facts: Mapping[str, str], found: Sequence[Figures]) -> str:
    """A table for the README, with what it depends on below it."""
    lines = [HEADER, ("---",) + ("---:",) * (len(HEADER) - 1), *(_cells(row) for row in found)]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    if found:
        text += ["", f"Geometric mean of the speed-ups over the library: {mean_gain(found):.2f}x."]
    disturbed = disturbance(row.others for row in found)
    text += ["", disturbed] if disturbed else []
    text += ["", *(f"* {name}: {value}" for name, value in facts.items())]
    return "\n".join(text) + "\n"


def write(path: Path, data: Mapping[str, Any], markdown: str) -> None:
    """Write the JSON to `path` and the Markdown beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown, encoding="utf-8")


def _cells(row: Figures) -> tuple[str, ...]:
    tuned, library = row.times[TUNED], row.times[row.library]
    return (
        row.name, ms(row.times[UNSCHEDULED]), ms(row.times[DEFAULT]),
        ms(tuned), f"{tuned.spread:.1%}",
        f"{row.library} {ms(library)}", f"{library.spread:.1%}", times(row.gain),
        "" if row.share is None else f"{row.share.rate:.1f} {row.share.unit}",
        "" if row.share is None else f"{row.share.share:.0%}",
    )  # fmt: skip


def _row_json(row: Figures) -> dict[str, Any]:
    share = row.share
    ratios = {
        name: compare(row.times[name], row.times[TUNED]) for name in row.times if name != TUNED
    }
    return {
        "name": row.name,
        "library": row.library,
        "times": {name: _timing_json(t) for name, t in row.times.items()},
        "over_tuned": {n: [c.ratio, c.low, c.high] for n, c in ratios.items()},
        "errors": dict(row.errors),
        "rate": None if share is None else [share.rate, share.unit],
        "peak": None if share is None else share.peak,
        "others": row.others,
    }


def _timing_json(timing: Timing) -> dict[str, Any]:
    return {
        "median": timing.median,
        "interval": list(timing.interval),
        "calls": timing.calls,
        "blocks": list(timing.times),
    }
