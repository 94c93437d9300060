"""A recording: what many candidates of one workload took on one machine, visit by visit.

It holds all that a search asks of a space: the candidates themselves, their features, and why
schedules were refused. So it says the same whatever becomes of rules, and needs no compiler.

A file is JSON Lines, packed by gzip: a header, then a line for each candidate.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from autotune.choices import freeze
from autotune.cost_model.make import draft_of
from autotune.cost_model.model import Draft
from autotune.cost_model.roofline import draft
from autotune.errors import DatabaseError
from autotune.features.table import FEATURES
from autotune.space import Candidate, Sketch, Space
from backends import resolve
from tensorir import whole_file

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Recorded:
    """One candidate.

    status  how it ended, one of `autotune.database.records.STATUSES`, or "refused" where a
            primitive refused and there is no program
    error   why it failed or was refused
    row     its features, float32, in the order of `FEATURES`; None where it was refused
    visits  seconds per call, one time for each visit; visits lie minutes apart
    """

    candidate: Candidate
    status: str
    error: str = ""
    row: np.ndarray | None = None
    visits: tuple[float, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The median over all visits: as near to the truth as a recording is."""
        return median(self.visits) if self.status == "ok" else None


@dataclass(frozen=True, eq=False)
class Recording:
    """Candidates of one workload, each another program.

    name      of the workload
    choices   the names of the choices of each sketch
    defaults  what needs no tuning, the best first; part of `entries`
    about     machine, target, settings and dates, for people
    cycles    what formulas of plans tell of candidates; none is in a file (`with_formulas`)
    """

    name: str
    choices: Mapping[str, tuple[str, ...]]
    entries: Sequence[Recorded]
    defaults: tuple[Candidate, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    cycles: Mapping[Candidate, float] = field(default_factory=dict)

    @cached_property
    def draft(self) -> Draft:
        """What estimates seconds from features on the processor that was recorded on; the usual
        one's where nothing is said about it."""
        target = self.about.get("target")
        return draft if target is None else draft_of(resolve(target))

    def with_formulas(self, space: Space) -> Recording:
        """The recording with the cycles of candidates that a space has the formulas of, as searches
        of that space have them: of sketches that have the same choices there, in whatever order
        their groups are in, and of those that have got others since."""
        found: dict[Candidate, float] = {}
        for name, choices in self.choices.items():
            sketch = _grown(space, name, choices)
            if sketch is None:
                continue
            some = [e.candidate for e in self.entries if e.candidate.sketch == name]
            made = [dict(zip(choices, candidate.values)) for candidate in some]
            now = [choice.name for choice in sketch.choices]
            cycles = sketch.cycles([[values.get(what, ...) for what in now] for values in made])
            found |= {} if cycles is None else dict(zip(some, map(float, cycles)))
        return replace(self, cycles=found)

    def without_noise(self) -> Recording:
        """The recording in which each candidate takes the least of its times in every visit: what
        else a machine does makes times longer, never shorter. So it tells what a search can find
        there, whoever is lucky."""
        least = [
            replace(e, visits=(min(e.visits),) * len(e.visits)) if e.visits else e
            for e in self.entries
        ]
        return replace(self, entries=least)

    def entry(self, candidate: Candidate) -> Recorded:
        """What is recorded of a candidate; DatabaseError where nothing is."""
        found = self._entries.get(candidate)
        if found is None:
            raise DatabaseError(f"recording {self.name!r} has no candidate {candidate.key}")
        return found

    @cached_property
    def _entries(self) -> dict[Candidate, Recorded]:
        return {entry.candidate: entry for entry in self.entries}

    def best_seconds(self) -> float:
        """What the fastest candidate takes; DatabaseError where none ran.

        The least of a thousand noisy medians is that of who was lucky (the winner's curse), so who
        is fastest by all visits but one is valued by the visit that had no say, and the median over
        the visits left out is told (cross-validation: Stone, 1974). Of one visit it is the least.
        """
        every = range(self.visits)
        if len(every) < 2:
            return self.fastest(every).visits[0]
        others = {out: [n for n in every if n != out] for out in every}
        return median(self.fastest(rest).visits[out] for out, rest in others.items())

    def fastest(self, visits: Iterable[int]) -> Recorded:
        """Who has the least median over these visits; DatabaseError where none ran."""
        if not self._ran:
            raise DatabaseError(
                f"recording {self.name!r} has no times: run the recorder's phase `time`"
            )
        return self._ran[int(np.median(self._times[:, list(visits)], axis=1).argmin())]

    @cached_property
    def visits(self) -> int:
        """How often each candidate that ran was timed, at least; 0 where none ran."""
        return min((len(entry.visits) for entry in self._ran), default=0)

    @cached_property
    def _ran(self) -> list[Recorded]:
        return [entry for entry in self.entries if entry.status == "ok"]

    @cached_property
    def _times(self) -> np.ndarray:
        return np.array([entry.visits[: self.visits] for entry in self._ran])

    def write(self, path: str | Path) -> None:
        """Write the file anew; equal recordings give equal bytes."""
        names = list(self.choices)
        header = {
            "format": FORMAT, "name": self.name, "features": FEATURES, "about": self.about,
            "sketches": [[name, self.choices[name]] for name in names],
            "defaults": [c.as_json() for c in self.defaults],
        }  # fmt: skip
        lines = [json.dumps(header)]
        for e in self.entries:
            row = None if e.row is None else [_short(float(v)) for v in e.row]
            place = names.index(e.candidate.sketch)
            times = [float(f"{t:.4g}") for t in e.visits]
            fields = [place, e.candidate.values, e.status, e.error, row, times]
            lines.append(json.dumps(fields, separators=(",", ":")))
        text = "\n".join(lines) + "\n"
        with whole_file(path) as whole:
            whole.write_bytes(gzip.compress(text.encode(), 9, mtime=0))

    @staticmethod
    def read(path: str | Path) -> Recording:
        """The recording in a file that `write` made.

        Raises DatabaseError for a file that is none, or whose features are of another version.
        """
        try:
            lines = gzip.decompress(Path(path).read_bytes()).decode().splitlines()
            header = json.loads(lines[0])
            if header["format"] != FORMAT:
                raise DatabaseError(
                    f"{str(path)!r} is a recording of format {header['format']}, not {FORMAT}: "
                    "record it again, or use the version of the project that wrote it"
                )
            if tuple(header["features"]) != FEATURES:
                raise DatabaseError(
                    f"{str(path)!r} has features of another version: record it again, or use the "
                    "version of the project that wrote it"
                )
            sketches = [(name, tuple(choices)) for name, choices in header["sketches"]]
            return Recording(
                header["name"],
                dict(sketches),
                [_entry(json.loads(line), [name for name, _ in sketches]) for line in lines[1:]],
                tuple(Candidate.from_json(c) for c in header["defaults"]),
                header["about"],
            )
        except (OSError, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
            raise DatabaseError(f"{str(path)!r} is not a recording: {error}") from error


def _grown(space: Space, name: str, choices: Sequence[str]) -> Sketch | None:
    """The sketch of a space that has these choices and the fewest others, whatever order its groups
    are in; None where there is none, or several have equally few and none has the name."""
    alike = [s for s in space.sketches.values() if sorted(s.name) == sorted(name)]
    alike = [s for s in alike if set(choices) <= {choice.name for choice in s.choices}]
    fewest = min((len(s.choices) for s in alike), default=0)
    alike = [s for s in alike if len(s.choices) == fewest]
    alike = [s for s in alike if s.name == name] or alike
    return alike[0] if len(alike) == 1 else None


def _entry(fields: Sequence[Any], sketches: Sequence[str]) -> Recorded:
    place, values, status, error, row, times = fields
    candidate = Candidate(sketches[place], freeze(values))
    found = None if row is None else np.asarray(row, dtype=np.float32)
    return Recorded(candidate, status, error, found, tuple(times))


def _short(value: float) -> float | int:
    """Three digits after the point tell all that a feature says: most are logarithms."""
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded
