"""What the emulator has to say about a run: reports, and the error that carries one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir import TensorIRError

Place = tuple[int, int, int]


@dataclass(frozen=True)
class Report:
    """One thing that is wrong with a kernel.

    kind     "divergence", "lanes", "alignment", "arena", "memory"
    message  what happened, in a sentence
    lines    the lines of the text that took part, counted from 1
    buffer   the array that it happened to, "" where none did
    block    the index of the block
    threads  the indices of the threads that took part
    count    how often it happened
    """

    kernel: str
    kind: str
    message: str
    lines: tuple[int, ...] = ()
    buffer: str = ""
    block: Place = (0, 0, 0)
    threads: tuple[Place, ...] = ()
    count: int = 1
    places: tuple[str, ...] = field(default=(), compare=False)
    """For each line, its text, and what it is in the program where that is known."""

    def __str__(self) -> str:
        head = f"{self.kernel}: {self.kind}: {self.message}"
        return "\n".join((head, *(f"  {place}" for place in self.places)))


class EmulationError(TensorIRError):
    """A kernel did what a GPU would not run through; `report` says what."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Reporter:
    """Makes reports of the runtime's records for the kernels of one text.

    lines  what a line of the text is in the program, by its number, such as "loop k_0"
    """

    def __init__(self, source: str, lines: Mapping[int, str] | None = None) -> None:
        self._source = source.splitlines()
        self._lines = lines or {}

    def reports(self, kernel: str, records: str) -> list[Report]:
        """The reports of the runtime's lines of JSON."""
        return [self._report(kernel, json.loads(line)) for line in records.splitlines()]

    def _report(self, kernel: str, record: dict[str, Any]) -> Report:
        kind = record["kind"]
        message = _MESSAGES[kind](record)
        if kind == "stuck":
            kind = _kind_of_stuck(record)
        waits = [wait[3] for wait in record.get("waits", ()) if wait[3]]
        given = [record[key] for key in ("line", "other_line") if record.get(key)]
        lines = tuple(dict.fromkeys((*given, *waits)))
        threads = [record[key] for key in ("thread", "other_thread") if key in record]
        return Report(
            kernel,
            kind,
            message,
            lines,
            record.get("buffer", ""),
            tuple(record.get("block", (0, 0, 0))),
            tuple(tuple(thread) for thread in threads),
            record.get("count", 1),
            tuple(self._place(line) for line in lines),
        )

    def _place(self, line: int) -> str:
        text = self._source[line - 1].strip() if line <= len(self._source) else ""
        known = f" ({self._lines[line]})" if line in self._lines else ""
        return f"line {line}{known}: {text}"


def _divergence(r: dict[str, Any]) -> str:
    return (
        f"thread {_index(r['thread'])} of block {_index(r['block'])} comes to {r['what']} of "
        f"line {r['line']} while others wait in {r['other_what']} of line {r['other_line']}: all "
        "have to come to the same one"
    )


def _stuck(r: dict[str, Any]) -> str:
    waits = "; ".join(
        f"{_span(first, end)} {f'wait in {what} of line {line}' if line else 'have ended'}"
        for first, end, what, line in r["waits"]
    )
    needed = "lanes of a warp" if _kind_of_stuck(r) == "lanes" else "threads of the block"
    return (
        f"no thread of block {_index(r['block'])} can go on, since not all {needed} come to the "
        f"same place: {waits}"
    )


def _kind_of_stuck(r: dict[str, Any]) -> str:
    """Lanes where only some of a warp wait for the rest of it; else the barrier of the block."""
    of_warps = any(line and what != "ti_sync" for _, _, what, line in r["waits"])
    return "lanes" if of_warps else "divergence"


def _span(first: int, end: int) -> str:
    """Threads by their linear numbers."""
    return f"thread {first}" if end == first + 1 else f"threads {first} to {end - 1}"


def _alignment(r: dict[str, Any]) -> str:
    buffer = f" of {r['buffer']}" if r["buffer"] else ""
    return (
        f"thread {_index(r['thread'])} of block {_index(r['block'])} accesses {r['bytes']} "
        f"bytes{buffer} at an address that is {r['off']} beyond a multiple of {r['bytes']}"
    )


def _index(of: Iterable[int]) -> str:
    return f"({', '.join(map(str, of))})"


_MESSAGES = {
    "divergence": _divergence,
    "stuck": _stuck,
    "alignment": _alignment,
    "arena": lambda r: (
        f"it has {r['bytes']} bytes of shared memory, and the launch gives {r['given']}"
    ),
    "memory": lambda r: f"there is no memory for the stacks of {r['threads']} threads",
}
