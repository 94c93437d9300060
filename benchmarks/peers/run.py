"""One row with all libraries: data, results checked, times in turns."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotune.measure import machine_lock
from autotune.measure.busy import Neighbours
from benchmarks.limits import Limits
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.figures import Figures
from benchmarks.peers.kinds import KINDS, make_inputs, moved_bytes
from benchmarks.peers.process import Gone, Process
from benchmarks.peers.rows import Row
from benchmarks.peers.turns import Subject, in_turns

PREPARE_S = 600.0
TUNE_S = 7200.0


@dataclass
class Field:
    """The libraries that take part, each in its process, which is started again where it died.

    missing  by library, why it cannot take part in any row
    """

    pythons: Mapping[str, Path]
    threads: int
    processes: dict[str, Process] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start what is not running, but nothing that could not be started before."""
        for name, python in self.pythons.items():
            if name in self.missing or (name in self.processes and self.processes[name].alive):
                continue
            if name in self.processes:
                self.processes.pop(name).close()
            try:
                self.processes[name] = process = Process(name, self.threads, python)
                self.versions[name] = process.version
            except Gone as reason:
                self.missing[name] = f"does not start: {reason}"

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


@dataclass(frozen=True)
class Settings:
    """How to run the rows.

    rounds     blocks of each form
    min_ms     of a block
    pause_s    between two libraries
    constants  whether weights may be prepared ahead of the call
    options    for the libraries: trials, seed and database of the tuners
    """

    rounds: int
    min_ms: float
    pause_s: float
    constants: bool
    options: Mapping[str, Any]


def run_row(row: Row, everyone: Field, settings: Settings, limits: Limits) -> Figures:
    """The figures of one row; a library that fails is missing from it, with the reason."""
    everyone.start()
    kind = KINDS[row.kind]
    inputs = make_inputs(row.kind, row.sizes)
    expected = kind.expected(row.sizes, inputs)
    moved, flops = moved_bytes(row.kind, inputs, expected), kind.flops(row.sizes)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        for name, array in {**inputs, "expected": expected}.items():
            np.save(Path(folder) / f"{name}.npy", array)
        request = {
            "row": row.to_json(), "folder": folder, "inputs": list(inputs),
            "constants": list(kind.constants if settings.constants else ()),
            "min_ms": settings.min_ms, "options": dict(settings.options),
        }  # fmt: skip
        del inputs, expected
        missing = dict(everyone.missing)
        errors: dict[str, float] = {}
        seconds: dict[str, float] = {}
        subjects: dict[str, list[Subject]] = {}
        for name, process in everyone.processes.items():
            subjects[name] = _prepared(name, process, request, errors, missing, seconds)
        subjects = {name: found for name, found in subjects.items() if found}
    with machine_lock():
        neighbours = Neighbours()
        with neighbours.watching():
            times, gone = in_turns(subjects, everyone.processes, settings.rounds, settings.pause_s)
    _release(everyone)
    reasons, others = {**missing, **gone}, neighbours.share()
    given = row, times, errors, reasons, flops, moved, kind.dtype, limits, others
    return Figures(*given, seconds=seconds)


def _prepared(
    name: str,
    process: Process,
    request: Mapping[str, Any],
    errors: dict[str, float],
    missing: dict[str, str],
    seconds: dict[str, float],
) -> list[Subject]:
    """The forms of one library that work; notes errors, what is missing, and what it took."""
    slow = PEERS[name].optional or request["options"].get("trials")
    timeout = TUNE_S if slow else PREPARE_S
    try:
        answer = process.ask(timeout, do="prepare", **request)
    except Gone as end:
        answer = {"error": str(end)}
    reason = answer.get("unsupported") or answer.get("error")
    if reason:
        missing[name] = reason
        return []
    missing.update({f"{name} {form}": why for form, why in answer["failed"].items()})
    seconds[name] = answer["prepare_seconds"]
    errors.update({f"{name} {form}": error for form, error in answer["errors"].items()})
    return [Subject(name, f, calls, seconds) for f, (calls, seconds) in answer["calls"].items()]


def _release(everyone: Field) -> None:
    """Give the memory of the row back."""
    for process in everyone.processes.values():
        try:
            process.ask(PREPARE_S, do="release")
        except Gone:
            process.close()
