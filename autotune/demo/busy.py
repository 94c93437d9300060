"""How much of the processors other programs used while times were taken. Known on Linux only."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
TOLERABLE = 0.05
"""Share of the processors that others may use without a word."""


class Neighbours:
    """Watches the processors that this process may use, from its making on."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._begun = self._read()

    def share(self) -> float | None:
        """The share of the processors' time that others had; None where that is not known.

        What a virtual machine's host took away counts too.
        """
        now = self._read()
        if now is None or self._begun is None:
            return None
        wall, busy, own = (b - a for a, b in zip(self._begun, now))
        return max(0.0, busy - own) / wall if wall > 0 else None

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds until now: of all usable processors, of their work, and of this process."""
        try:
            usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
            rows = [line.split() for line in self._stat.read_text().splitlines()]
            ticks = os.sysconf("SC_CLK_TCK")
            # user nice system idle iowait irq softirq steal
            found = [[int(n) for n in row[1:9]] for row in rows if row and row[0] in usable]
            busy = sum(sum(row) - row[3] - row[4] for row in found) / ticks
        except (OSError, AttributeError, ValueError, IndexError):
            return None
        own = os.times()
        return time.monotonic() * len(found), busy, own.user + own.system


def note(shares: list[float | None]) -> str:
    """What to say about the neighbours; "" where they were quiet."""
    largest = max((s for s in shares if s is not None), default=0.0)
    if largest <= TOLERABLE:
        return ""
    return (
        f"note: other programs used up to {largest:.0%} of the processors while times were taken; "
        "run this again on a quiet machine"
    )
