"""The figures of one row, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backends import Comparison, Timing, compare
from benchmarks.limits import Limits
from benchmarks.peers.catalog import OURS, PEERS
from benchmarks.peers.rows import Row
from benchmarks.peers.turns import Subject


@dataclass(frozen=True)
class Figures:
    """What one row gave.

    times    by subject, all taken in turns; none where nothing ran
    errors   by subject's name, the largest error relative to the largest expected value
    missing  by library (or library and form), why it has no time
    flops    additions and multiplications of the usual algorithm
    bytes    of all inputs and the output
    dtype    of the arithmetic
    limits   what the machine can do
    others   share of the processors that other programs used, None where unknown
    seconds  by library, of making all its forms ready: tuning, compiling
    """

    row: Row
    times: Mapping[Subject, Timing]
    errors: Mapping[str, float]
    missing: Mapping[str, str]
    flops: int
    bytes: int
    dtype: str
    limits: Limits
    others: float | None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def limit(self) -> tuple[float, str] | None:
        """The least seconds that the machine allows, and what bounds it."""
        return self.limits.seconds(self.flops, self.bytes, self.dtype)

    def form(self, name: str) -> Timing | None:
        """The times of one form of ours."""
        return next((t for s, t in self.times.items() if (s.library, s.form) == (OURS, name)), None)

    @property
    def ours(self) -> Subject | None:
        """The fastest form of ours."""
        return self._fastest([s for s in self.times if s.library == OURS])

    @property
    def best_peer(self) -> Subject | None:
        """The fastest form of any other library."""
        return self._fastest([s for s in self.times if s.library != OURS])

    def best_of(self, library: str) -> Subject | None:
        return self._fastest([s for s in self.times if s.library == library])

    @property
    def gain(self) -> Comparison | None:
        """The best peer's time over ours: above 1 we are faster."""
        if self.ours is None or self.best_peer is None:
            return None
        return compare(self.times[self.best_peer], self.times[self.ours])

    def share(self, subject: Subject | None) -> float | None:
        """The least possible time over that of `subject`."""
        if subject is None or self.limit is None:
            return None
        return self.limit[0] / self.times[subject].median

    def rate(self, subject: Subject | None) -> str:
        """GFLOP/s where there is arithmetic, else GB/s."""
        if subject is None:
            return ""
        seconds = self.times[subject].median
        if self.flops:
            return f"{self.flops / seconds / 1e9:.0f} GFLOP/s"
        return f"{self.bytes / seconds / 1e9:.0f} GB/s"

    def to_json(self) -> dict[str, Any]:
        """Everything, times in seconds per call."""
        gain = self.gain
        return {
            **self.row.to_json(),
            "flops": self.flops,
            "bytes": self.bytes,
            "limit_seconds": None if self.limit is None else self.limit[0],
            "limit": None if self.limit is None else self.limit[1],
            "times": [self._timing_json(subject) for subject in self.times],
            "best_peer": None if self.best_peer is None else self.best_peer.name,
            "gain": None if gain is None else [gain.ratio, gain.low, gain.high],
            "missing": dict(self.missing),
            "others": self.others,
            "seconds": dict(self.seconds),
        }

    def _timing_json(self, subject: Subject) -> dict[str, Any]:
        timing = self.times[subject]
        return {
            "library": subject.library,
            "form": subject.form,
            "median": timing.median,
            "interval": list(timing.interval),
            "share": self.share(subject),
            "error": self.errors.get(subject.name),
            "calls": timing.calls,
            "blocks": list(timing.times),
        }

    def _fastest(self, subjects: list[Subject]) -> Subject | None:
        return min(subjects, key=lambda s: self.times[s].median, default=None)


def forms_of(found: Sequence[Figures]) -> list[str]:
    """The forms of ours that have times, in the order in which they appear."""
    return list(dict.fromkeys(s.form for row in found for s in row.times if s.library == OURS))


def peers_of(found: Sequence[Figures]) -> list[str]:
    """The other libraries that have times, in the order of the catalogue."""
    seen = {s.library for row in found for s in row.times}
    return [name for name in PEERS if name in seen and name != OURS]
