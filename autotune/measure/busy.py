"""How much of the processors other programs used while times were taken. Known on Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROCESSES = Path("/proc")
TOLERABLE = 0.05
"""Share of the processors that others may use without a word."""


class Neighbours:
    """Watches the processors that this process may use, while `watching`.

    Processes that this one has started, and theirs, are none of the others.
    """

    def __init__(self, processes: Path = PROCESSES) -> None:
        self._processes = processes
        self._wall = self._others = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What happens inside counts."""
        begun = self._read()
        try:
            yield
        finally:
            now = self._read()
            if begun is not None and now is not None:
                wall, busy, own = (b - a for a, b in zip(begun, now))
                self._wall += wall
                self._others += busy - own

    def share(self) -> float | None:
        """The share of the processors' time that others had; None where that is not known.

        What a virtual machine's host took away counts too.
        """
        return max(0.0, self._others) / self._wall if self._wall > 0 else None

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds until now: of all usable processors, of their work, and of our processes."""
        try:
            usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
            lines = (self._processes / "stat").read_text().splitlines()
            rows = [line.split() for line in lines]
            ticks = os.sysconf("SC_CLK_TCK")
            # user nice system idle iowait irq softirq steal
            found = [[int(n) for n in row[1:9]] for row in rows if row and row[0] in usable]
            busy = sum(sum(row) - row[3] - row[4] for row in found) / ticks
            own = sum(os.times()[:4]) + sum(map(_worked, _below(os.getpid()))) / ticks
        except (OSError, AttributeError, ValueError, IndexError):
            return None
        return time.monotonic() * len(found), busy, own


def _below(pid: int) -> Iterator[int]:
    """The living processes that a process started, and theirs."""
    tasks = PROCESSES / str(pid) / "task"
    if pid == os.getpid() and not (tasks / str(pid) / "children").exists():
        raise OSError("this system does not tell whose child a process is")
    for file in tasks.glob("*/children"):
        with suppress(OSError):  # it has ended
            for child in map(int, file.read_text().split()):
                yield child
                yield from _below(child)


def _worked(pid: int) -> int:
    """Ticks that a process has worked, with what it has waited for."""
    try:
        text = (PROCESSES / str(pid) / "stat").read_text()
    except OSError:  # it has ended
        return 0
    return sum(map(int, text.rpartition(")")[2].split()[11:15]))  # a name may hold anything


def disturbance(shares: Iterable[float | None]) -> str:
    """What to say about the neighbours; "" where they were quiet."""
    largest = max((s for s in shares if s is not None), default=0.0)
    if largest <= TOLERABLE:
        return ""
    return (
        f"other programs used up to {largest:.0%} of the processors while times were taken; "
        "run this again on a quiet machine"
    )
