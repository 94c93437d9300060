"""What the emulator has to say about a run: reports, counts, and the error of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backends.cuda.emulator.sentences import kind_of, sentence
from tensorir import TensorIRError

SHOWN = 8
"""Reports that an error prints."""

Place = tuple[int, int, int]


@dataclass(frozen=True)
class Report:
    """One thing that is wrong with a kernel.

    launch   the number of the launch, from 0
    kind     "race"; "bounds"; "uninitialised" (a read before any write); "wait" (a read before an
             asynchronous copy was waited for); "alignment" (a vector); "divergence" (a barrier that
             not all threads come to); "lanes" (a shuffle without a lane); "arena" (too little
             shared memory); "memory", "crash", "timeout" (of the process that ran the kernel)
    message  what happened first, in a sentence
    lines    the lines of the text that took part, counted from 1
    buffer   the array that it happened to, "" where none did
    block    the index of the block
    threads  the indices of the threads that took part
    count    how often it happened, with the same lines and the same array
    """

    kernel: str
    kind: str
    message: str
    lines: tuple[int, ...] = ()
    buffer: str = ""
    block: Place = (0, 0, 0)
    threads: tuple[Place, ...] = ()
    count: int = 1
    launch: int = 0
    places: tuple[str, ...] = field(default=(), compare=False)
    """For each line, its text, and what it is in the program where that is known."""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        head = f"{self.kernel}: {self.kind}: {self.message}{times}"
        return "\n".join((head, *(f"  {place}" for place in self.places)))


@dataclass(frozen=True)
class Count:
    """What the warps of a launch did in one line of the text.

    launch        the number of the launch, from 0
    what          "load" or "store" of `buffer`, in `space` "global" or "shared"; "ti_sync", counted
                  once a block; "ti_sync_warp" or a shuffle, once a warp
    bytes         of one lane's access
    instructions  how many the warps did
    transactions  sectors of 32 bytes in global memory; wavefronts of shared memory
    least         the transactions that the same bytes, side by side, or without conflicts of banks,
                  would have taken
    """

    kernel: str
    line: int
    what: str
    instructions: int
    buffer: str = ""
    space: str = ""
    bytes: int = 0
    transactions: int = 0
    least: int = 0
    launch: int = 0
    place: str = field(default="", compare=False)

    def __str__(self) -> str:
        of = f" of {self.buffer}" if self.buffer else ""
        cost = f", {self.transactions} transactions ({self.least} at least)" if of else ""
        head = f"{self.kernel}: {self.what}{of}: {self.instructions} instructions{cost}"
        return f"{head}\n  {self.place}"

    @property
    def conflicts(self) -> int:
        """The transactions that banks, or bytes that nobody wanted, have cost."""
        return self.transactions - self.least


class EmulationError(TensorIRError):
    """Kernels did what is wrong on a GPU; `reports` say what, and `report` is the first of them."""

    def __init__(self, reports: Sequence[Report]) -> None:
        more = f"\n... and {len(reports) - SHOWN} more" if len(reports) > SHOWN else ""
        super().__init__("\n".join(map(str, reports[:SHOWN])) + more)
        self.reports = tuple(reports)
        self.report = reports[0]


class Reporter:
    """Makes reports of the runtime's records, for the kernels of one text.

    lines  what a line of the text is in the program, by its number, such as "loop k_0"
    """

    def __init__(self, source: str, lines: Mapping[int, str] | None = None) -> None:
        self._source = source.splitlines()
        self._lines = {} if lines is None else lines

    def report(
        self, kernel: str, record: dict[str, Any], count: int = 1, launch: int = 0
    ) -> Report:
        waits = [wait[3] for wait in record.get("waits", ()) if wait[3]]
        given = [record[key] for key in ("line", "other_line") if record.get(key)]
        lines = tuple(dict.fromkeys((*given, *waits)))
        threads = [record[key] for key in ("thread", "other_thread") if key in record]
        return Report(
            kernel,
            kind_of(record),
            sentence(record),
            lines,
            record.get("buffer", ""),
            tuple(record.get("block", (0, 0, 0))),
            tuple(tuple(thread) for thread in threads),
            count,
            launch,
            tuple(self._place(line) for line in lines),
        )

    def count(self, kernel: str, record: dict[str, Any], launch: int = 0) -> Count:
        given = {key: value for key, value in record.items() if key != "kind"}
        return Count(kernel, **given, launch=launch, place=self._place(record["line"]))

    def _place(self, line: int) -> str:
        text = self._source[line - 1].strip() if line <= len(self._source) else ""
        known = f" ({self._lines[line]})" if line in self._lines else ""
        return f"line {line}{known}: {text}"
