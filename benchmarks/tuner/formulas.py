"""How well formulas order candidates that nothing was built for, on recorded times.

    python -m benchmarks.tuner.formulas [--only NAME ...]

Rank correlations with the measured times of each sketch: of the cycles by which searches choose
what to build (`PlannedSketch.cycles`), and of the draft, which needs what is built. Nothing is
compiled and nothing is timed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from autotune.cost_model.quality import spearman
from benchmarks.tuner.record import RECORDED, recorded
from benchmarks.tuner.section import Section, chosen, parser_of, publish

FEWEST = 20
"""Candidates of a sketch below which a correlation says nothing."""


@dataclass(frozen=True)
class Told:
    """A sketch of a workload: correlations over so many candidates; None without a formula."""

    workload: str
    sketch: str
    count: int
    draft: float
    formula: float | None

    @property
    def is_worse(self) -> bool:
        """Whether the formula is surely worse than the draft: by two standard errors."""
        return self.formula is not None and self.formula < self.draft - 2 / sqrt(self.count)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where a formula is worse than the draft, 2 a wrong request."""
    options = parser_of("benchmarks.tuner.formulas", __doc__, seeds=1, trials=1).parse_args(argv)
    known = {path.name.removesuffix(".jsonl.gz"): path for path in RECORDED.glob("*.jsonl.gz")}
    names = chosen(sorted(known), options.only)
    found = [row for name in (names[:1] if options.quick else names) for row in told(known[name])]
    lines = [
        (r.workload, r.sketch, str(r.count), f"{r.draft:.2f}",
         "none" if r.formula is None else f"{r.formula:.2f}")
        for r in found
    ]  # fmt: skip
    both = [(r.draft, r.formula) for r in found if r.formula is not None]
    means = np.mean(both, axis=0) if both else (np.nan, np.nan)
    notes = [
        f"Of {len(both)} sketches with a formula of {len(found)}, rank correlations are"
        f" {means[1]:.2f} in the mean, and {means[0]:.2f} by the draft of what was built."
    ]
    failed = [f"{r.workload}, {r.sketch}: the draft orders it better" for r in found if r.is_worse]
    header = ("workload", "sketch", "candidates", "draft", "formula")
    title = "formulas: rank correlation with measured times"
    data = {"sketches": [vars(row) for row in found]}
    section = Section("", "formulas.json", title, header, lines, data, notes, failed)
    return publish(section, options)


def told(path: Path) -> Iterator[Told]:
    """The sketches of a recording."""
    recording = recorded(path)
    for sketch in recording.choices:
        good = [e for e in recording.entries if e.candidate.sketch == sketch and e.seconds]
        times = np.array([entry.seconds for entry in good])
        rows = [entry.row for entry in good if entry.row is not None]
        if len(good) < FEWEST:
            continue
        cycles = [recording.cycles.get(entry.candidate, np.nan) for entry in good]
        formula = None if np.isnan(cycles).any() else spearman(np.array(cycles), times)
        drafted = spearman(recording.draft(np.stack(rows)), times)
        yield Told(recording.name, sketch, len(good), drafted, formula)


if __name__ == "__main__":
    sys.exit(main())
