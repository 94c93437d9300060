"""What trials tell beyond their times: which choices mattered, what each sketch and algorithm was
worth, how far from the roofline they are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from autotune.calibration.peak import known_peaks
from autotune.calibration.roofline import argument_bytes
from autotune.database.records import Record
from autotune.machine.machine import this_machine
from autotune.machine.work import flops
from autotune.report.summary import Report
from autotune.rules import make_space
from backends import resolve
from tensorir import DEFAULT_NUMERICS, TensorIRError, device_of, parse, split_constants

ENOUGH = 8
"""Successful trials of a sketch from which on its choices are judged."""

OWN = "as defined"
"""What computes a block that no algorithm was used for."""


@dataclass(frozen=True)
class Decision:
    """How much a choice of a sketch mattered.

    share  of the variance of the logarithm of times, what the choice alone explains, corrected for
           the number of its values (epsilon squared), 0 to 1
    best   the value of the fastest trial; `values` how many were tried, in `trials` trials
    """

    sketch: str
    name: str
    share: float
    best: str
    values: int
    trials: int


@dataclass(frozen=True)
class Worth:
    """What was got by a sketch, or by an algorithm: `seconds` of its best trial; None for none."""

    name: str
    trials: int
    ok: int
    seconds: float | None


@dataclass(frozen=True)
class Roof:
    """Where a workload is under the roofline of the machine that it was timed on.

    work, moved   operations, and bytes of all arguments
    gflops, gbps  peaks of the machine, measured before; None where they are not known
    """

    work: int
    moved: int
    gflops: float | None
    gbps: float | None

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.work / self.moved

    def rate(self, seconds: float) -> float:
        """GFLOP/s."""
        return self.work / seconds / 1e9

    @property
    def limit(self) -> float | None:
        """GFLOP/s that arithmetic and memory allow, if all arguments come from memory."""
        if self.gflops is None or self.gbps is None:
            return None
        return min(self.gflops, self.gbps * self.intensity)


def decisions(report: Report) -> list[Decision]:
    """The choices of each sketch with enough trials, those that mattered most first."""
    names, found = choice_names(report), []
    trials = sorted((r for r in report.trials if r.status == "ok"), key=lambda r: r.sketch)
    for sketch, group in groupby(trials, key=lambda r: r.sketch):
        records = list(group)
        width = min((len(r.decisions or ()) for r in records), default=0)
        if len(records) < ENOUGH:
            continue
        known = records[0].own["knobs"] if records[0].own else names.get(sketch, ())
        times = np.log([r.median or math.nan for r in records])
        first = records[int(np.argmin(times))]
        for at in range(width):
            values = [json.dumps(r.decisions[at]) for r in records]
            share = explained(values, times)
            if share is not None:
                name = known[at] if len(known) == width else f"choice {at + 1}"
                best = json.dumps(first.decisions[at])
                found.append(Decision(sketch, name, share, best, len(set(values)), len(records)))
    return sorted(found, key=lambda d: (-d.share, d.sketch, d.name))


def choice_names(report: Report) -> Mapping[str, tuple[str, ...]]:
    """For each sketch, what its choices are called; empty where this version has another space."""
    first = report.trials[0]
    try:
        device = device_of(resolve(first.target))
        func = parse(first.workload.text)
        space = make_space(func, device, DEFAULT_NUMERICS, constants=first.workload.constants)
    except TensorIRError:
        return {}
    return {name: tuple(c.name for c in s.choices) for name, s in space.sketches.items()}


def sketches(report: Report) -> list[Worth]:
    """What each sketch was worth, the best first."""
    return _worth(report, [record.sketch or "(none)" for record in report.trials])


def algorithms(report: Report) -> list[Worth]:
    """What each combination of algorithms was worth, the best first."""
    return _worth(report, [algorithms_of(record) for record in report.trials])


def algorithms_of(record: Record) -> str:
    """The algorithms that a record's steps use, in order."""
    used = [args.get("algorithm") for name, args, _ in record.trace if name == "use_algorithm"]
    return " + ".join(map(str, used)) or OWN


def roof(report: Report) -> Roof | None:
    """The place under the roofline; None for symbolic sizes, and where nothing is computed.

    Peaks are those that were measured on this machine before; none are measured now.
    """
    first = report.trials[0]
    try:
        func = parse(first.workload.text)
        work = flops(split_constants(func, first.workload.constants).main)
    except TensorIRError:
        return None
    moved = argument_bytes(func)
    if not work or not moved:
        return None
    peaks: dict[str, float] = {}
    if first.machine_key == this_machine().key and first.target.startswith("c"):
        peaks = dict(known_peaks())
    threads = first.conditions.threads
    kinds = {param.dtype for param in func.outputs}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return Roof(work, moved, peaks.get(f"gflops {kind} {threads}"), peaks.get(f"gbps {threads}"))


def explained(values: Sequence[str], times: np.ndarray) -> float | None:
    """The share of the variance of `times` that goes with `values`: epsilon squared of a one-way
    analysis of variance, 0 to 1. None for a single value, and where each trial has its own."""
    kinds = sorted(set(values))
    free = len(values) - len(kinds)
    total = float(np.sum((times - times.mean()) ** 2))
    if len(kinds) < 2 or free < 1 or total == 0:
        return None
    of = np.array([kinds.index(value) for value in values])
    parts = [times[of == k] for k in range(len(kinds))]
    within = sum(float(np.sum((part - part.mean()) ** 2)) for part in parts)
    between = total - within - (len(kinds) - 1) * within / free
    return min(max(between / total, 0.0), 1.0)


def _worth(report: Report, names: Sequence[str]) -> list[Worth]:
    found = []
    for name in dict.fromkeys(names):
        records = [record for record, other in zip(report.trials, names) if other == name]
        times = [report.seconds(r) or math.inf for r in records if r.status == "ok"]
        found.append(Worth(name, len(records), len(times), min(times, default=None)))
    return sorted(found, key=lambda w: (w.seconds is None, w.seconds or 0.0, w.name))
