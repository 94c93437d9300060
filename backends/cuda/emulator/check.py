"""Checked runs: in a process of their own, which nothing that a kernel does can outlive."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.commands import describe_status, run_command
from backends.cuda.emulator.launch import Launch, check_arguments, sizes_of
from backends.cuda.emulator.report import Count, Report, Reporter
from backends.cuda.emulator.signature import Kernels
from backends.errors import BuildError
from backends.scratch import ScratchFolder
from tensorir import CHECKS, TensorIRError

CHECKED = 1
BITS = {"races": 2, "uninitialised": 4, "lanes": 8, "counts": 16}
"""What a checked run can be asked for; it looks for the other CHECKS in any case."""

PAGE = 256
"""Arrays keep their addresses modulo this, and with them the alignment of their vectors."""


@dataclass(frozen=True)
class Findings:
    """`reports` of what is wrong with launches, and `counts` if they were asked for."""

    reports: tuple[Report, ...]
    counts: tuple[Count, ...] = ()

    def __str__(self) -> str:
        wrong = map(str, self.reports) if self.reports else ("nothing is wrong",)
        return "\n".join((*wrong, *map(str, self.counts)))


def mask_of(checks: str | Collection[str]) -> int:
    """The checks, given by names or by names with commas, as the runtime takes them."""
    names = checks.split(",") if isinstance(checks, str) else checks
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise TensorIRError(
            f"the emulator has no check {unknown[0]!r}; there are {', '.join(CHECKS)}"
        )
    return CHECKED + sum(BITS.get(name, 0) for name in dict.fromkeys(names))


class Arrays:
    """The arrays of some launches, each once, and their places in one file."""

    def __init__(self, launches: Sequence[Launch], kernels: Kernels) -> None:
        self.arrays: list[np.ndarray] = []
        self.offsets: list[int] = []
        self.changed: set[int] = set()
        self._numbers: dict[tuple[int, int], int] = {}
        for launch in launches:
            for value, parameter in zip(launch.args, kernels[launch.kernel]):
                if parameter.is_array:
                    number = self._add(value)
                    if not parameter.is_constant:
                        self.changed.add(number)
        self._refuse_overlap()

    def number(self, array: np.ndarray) -> int | None:
        """The number of an array; None of one that is no argument."""
        return self._numbers.get((array.ctypes.data, array.nbytes))

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            file.write(b"\0")
            for array, offset in zip(self.arrays, self.offsets):
                file.seek(offset)
                file.write(array.tobytes())

    def read(self, path: Path) -> None:
        """Take over what the kernels wrote."""
        content = path.read_bytes()
        for number in self.changed:
            array, start = self.arrays[number], self.offsets[number]
            values = np.frombuffer(content[start : start + array.nbytes], array.dtype)
            array[...] = values.reshape(array.shape)

    def _add(self, array: np.ndarray) -> int:
        key = array.ctypes.data, array.nbytes
        if key not in self._numbers:
            self._numbers[key] = len(self.arrays)
            end = self.offsets[-1] + self.arrays[-1].nbytes if self.arrays else 0
            self.arrays.append(array)
            self.offsets.append(-(-end // PAGE) * PAGE + array.ctypes.data % PAGE)
        return self._numbers[key]

    def _refuse_overlap(self) -> None:
        spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in self.arrays if a.size)
        if any(end > start for (_, end), (start, _) in zip(spans, spans[1:])):
            raise TensorIRError(
                "two of the arrays overlap without being the same: give copies to check the kernels"
            )


def check(
    launches: Sequence[Launch],
    kernels: Kernels,
    objects: tuple[Path, ...],
    reporter: Reporter,
    *,
    checks: int,
    outputs: Collection[np.ndarray],
    seed: int,
    timeout: float,
) -> Findings:
    """Run launches in another process. `objects` are the runner, the runtime and the
    kernels, compiled for checks."""
    if not launches:
        return Findings(())
    for launch in launches:
        check_arguments(launch, kernels[launch.kernel])
    arrays = Arrays(launches, kernels)
    job = "\n".join((*_array_lines(arrays, outputs), *_launch_lines(launches, kernels, arrays), ""))
    scratch = ScratchFolder()
    try:
        contents, said = scratch.path / "arrays", scratch.path / "reports"
        arrays.write(contents)
        said.touch()
        command = (*map(str, (*objects, contents, said)), str(seed), str(checks))
        end: dict[str, Any] | None = None
        try:
            done = run_command(command, job, timeout)
            end = _end_of(done)
        except subprocess.TimeoutExpired:
            end = {"kind": "timeout", "seconds": timeout}
        records = [json.loads(line) for line in said.read_text().splitlines()]
        if records and records[-1]["kind"] == "end":
            arrays.read(contents)
    finally:
        scratch.close()
    return _findings(launches, records, end, reporter)


def _array_lines(arrays: Arrays, outputs: Collection[np.ndarray]) -> list[str]:
    unwritten = {arrays.number(array) for array in outputs}
    return [
        f"array {offset} {array.size} {array.itemsize} {int(number not in unwritten)}"
        for number, (array, offset) in enumerate(zip(arrays.arrays, arrays.offsets))
    ]


def _launch_lines(launches: Sequence[Launch], kernels: Kernels, arrays: Arrays) -> list[str]:
    lines = []
    for launch in launches:
        sizes = " ".join(map(str, (*sum(sizes_of(launch), ()), launch.shared)))
        lines.append(f"launch {launch.kernel}_emulated {sizes}")
        for value, parameter in zip(launch.args, kernels[launch.kernel]):
            if parameter.is_array:
                lines.append(f"buffer {arrays.number(value)} {parameter.name}")
            else:
                lines.append(f"number {np.array(value, parameter.dtype).tobytes().hex()}")
        lines.append("run")
    return lines


def _end_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any] | None:
    """A record of how the process died; None where it ended by itself."""
    if done.returncode == 2:
        raise BuildError(f"the emulator could not run the kernels: {done.stderr.strip()}")
    if done.returncode in (0, 1):
        return None
    return {"kind": "died", "how": describe_status(done.returncode)}


def _findings(
    launches: Sequence[Launch],
    records: list[dict[str, Any]],
    end: dict[str, Any] | None,
    reporter: Reporter,
) -> Findings:
    reports: list[Report] = []
    counts: list[Count] = []
    position = 0
    again = _counted_again(records)
    if end is not None and not any(record["kind"] == "crash" for record in records):
        records = [*records, end]
    for record in records:
        kernel = launches[position].kernel
        if record["kind"] == "launch":
            position = record["number"]
        elif record["kind"] == "count":
            counts.append(reporter.count(kernel, record, position))
        elif record["kind"] not in ("again", "end"):
            times = again.get((position, record.get("id", 0)), 1)
            reports.append(reporter.report(kernel, record, times, position))
    return Findings(tuple(reports), tuple(counts))


def _counted_again(records: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """How often what was reported happened, by the launch and the number of the report."""
    found, position = {}, 0
    for record in records:
        if record["kind"] == "launch":
            position = record["number"]
        elif record["kind"] == "again":
            found[position, record["of"]] = record["count"]
    return found
