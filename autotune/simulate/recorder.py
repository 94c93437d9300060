"""The recorder: compiles many candidates of one workload, then times them, visit by visit.

Two phases, because compiling may run beside other work and timing may not. Both are resumable: what
is done is in journals in a folder, and a command that was ended goes on where it was.

Half of the candidates are drawn at random, a fifth are those of further draws that the draft
expects to be fastest, and the others lie around the fastest ones by a first, rough time: a search
spends most of its trials there, so a recording without neighbours of the best would flatter none.
Each candidate is another program.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from autotune.calibration.device import device_for
from autotune.cost_model.make import draft_of
from autotune.errors import DatabaseError
from autotune.machine.machine import this_machine
from autotune.measure import Measurer, MeasureResult, MeasureSettings
from autotune.measure.scoring import scheduled_program, wanted_features
from autotune.rules import default_candidates, make_space
from autotune.simulate.journal import Journal
from autotune.simulate.recording import Recorded, Recording
from autotune.simulate.stored import LOADER, cache_beside, keep
from autotune.space import Candidate, Infeasible
from backends import build, resolve
from schedule import Refusal, Schedule
from tensorir import DEFAULT_NUMERICS, PrimFunc, TensorIRError

RANDOM, DRAFTED = 0.5, 0.2
"""Shares of the candidates that are drawn, and chosen by the draft among as many draws again."""

DRAWS = 200
"""Draws that find no new program before a space counts as used up."""

ROUNDS = 4
"""How often the fastest so far are found anew, whose neighbours are recorded."""

BUILD_SECONDS = 20.0
"""Longest time of one compilation: what takes longer counts as a failure."""

STATED = MeasureSettings(min_ms=2.5, repeats=3, build_jobs=1, prune_factor=1e9)
"""How a visit times a candidate: the median of three blocks."""

ROUGH = MeasureSettings(min_ms=0.2, repeats=12, build_jobs=1, prune_factor=1e9)
"""How candidates are timed whose neighbours may be wanted, maybe beside other work."""


class Recorder:
    """The recording of one workload in the making.

    folder  where everything is kept: objects, sources, journals
    count   candidates that are compiled, at most
    also    those that are, whatever else is: what searches of other sizes would try first
    """

    def __init__(
        self, folder: Path, name: str, func: PrimFunc, count: int = 1000, target: str = "c",
        also: Sequence[Candidate] = (),
    ) -> None:  # fmt: skip
        self.folder, self.name, self.func, self.count = folder.resolve(), name, func, count
        self.target = resolve(target)
        self.space = make_space(func, device_for(self.target, None), DEFAULT_NUMERICS)
        self._described = Journal(self.folder / "space.jsonl")
        if not self._described.entries:
            self._described.add(**self._description())
        described = self._described.entries[0]
        self.defaults = [Candidate.from_json(c) for c in described["defaults"]]
        now = self._description()["choices"]
        kept = {name for name, names in described["choices"].items() if now.get(name) == names}
        self.also = [c for c in also if c.sketch in kept and self.space.contains(c)]
        self._extract = wanted_features(self.target, (), DEFAULT_NUMERICS)
        self._scored = Journal(self.folder / "scored.jsonl")
        self._built = Journal(self.folder / "built.jsonl")
        self._rough = Journal(self.folder / "rough.jsonl")
        self._visits = Journal(self.folder / "visits.jsonl")
        self._made: tuple[Candidate, Schedule] | None = None
        self._rows: dict[Candidate, np.ndarray | None] = {}
        self._programs: dict[str, Candidate] = {}
        self._told: dict[Candidate, str] = {}
        for entry in self._scored.entries:
            candidate = Candidate.from_json(entry["candidate"])
            known = entry["row"] is None or "key" in entry
            program = entry.get("key", "") if known else self._program(candidate)
            self._know(candidate, entry["row"], program)
        self._files: dict[Candidate, str | None] = {
            Candidate.from_json(e["candidate"]): e["file"] for e in self._built.entries
        }

    @property
    def built(self) -> int:
        """Candidates that are compiled, or whose build failed."""
        return len(self._files)

    def recorded_as(self, candidate: Candidate) -> Candidate:
        """The candidate that has its program here: another one, if choices made no difference."""
        return self._programs.get(self._told.get(candidate, ""), candidate)

    def build(self, seconds: float = float("inf")) -> bool:
        """Compile what is missing, for so many seconds; whether nothing is."""
        deadline = time.monotonic() + seconds
        for candidate in self._wanted():
            if time.monotonic() >= deadline:
                return False
            self._compile(candidate)
        return True

    def time(self, visit: int, settings: MeasureSettings = STATED) -> None:
        """Time each candidate that was compiled and runs, once, in an order of this visit's own.

        The first visit compares results with the oracle. What was timed already is left out.
        """
        self._time(self._visits, visit, settings, None)

    def recording(self) -> Recording:
        """What is known now: candidates with at least one visit, failures, and refusals."""
        times: dict[Candidate, list[float]] = {}
        ends: dict[Candidate, tuple[str, str]] = {}
        for entry in self._visits.entries:
            candidate = Candidate.from_json(entry["candidate"])
            ends.setdefault(candidate, ("ok", ""))
            if entry["status"] != "ok":
                ends[candidate] = entry["status"], entry["error"]
            else:
                times.setdefault(candidate, []).append(median(entry["times"]))
        found = [
            Recorded(c, "refused", e["refusal"])
            for e in self._scored.entries
            if e["row"] is None and (c := Candidate.from_json(e["candidate"])).sketch
        ]
        errors = {Candidate.from_json(e["candidate"]): e["error"] for e in self._built.entries}
        for candidate, file in self._files.items():
            status, error = ends.get(candidate, ("", ""))
            if file is None:
                status, error = "build_error", errors[candidate]
            visits = tuple(times.get(candidate, ())) if status == "ok" else ()
            if status:
                found.append(Recorded(candidate, status, error, self._rows[candidate], visits))
        if not times:
            raise DatabaseError(f"no candidate of {self.name!r} is timed: run the phase `time`")
        known = {e.candidate for e in found}
        named = self._described.entries[0]["choices"].items()
        choices = {k: tuple(v) for k, v in named if any(c.sketch == k for c in known)}
        about = {
            "machine": this_machine().to_json(), "target": str(self.target),
            "min_ms": STATED.min_ms, "blocks": STATED.repeats,
            "date": datetime.now(timezone.utc).date().isoformat(),
        }  # fmt: skip
        defaults = tuple(c for c in self.defaults if c in known)
        return Recording(self.name, choices, found, defaults, about)

    def _description(self) -> dict[str, Any]:
        """What a recording says of the space, as it was when the recording was begun."""
        choices = {
            name: [choice.name for choice in sketch.choices]
            for name, sketch in self.space.sketches.items()
        }
        defaults = default_candidates(self.space, ())
        return {"choices": choices, "defaults": [c.as_json() for c in defaults]}

    def _wanted(self) -> Iterator[Candidate]:
        """The candidates to compile that are not compiled yet."""
        rng = random.Random(f"{self.name}:random")
        chosen: dict[Candidate, None] = {}
        for candidate in (*self.defaults, *self.also):
            if self._is_new_program(candidate, chosen) and candidate not in self._files:
                yield candidate
        if self.built >= self.count:  # of rules that have changed since, samples would be others
            return
        yield from self._drawn(rng, int(self.count * RANDOM), chosen)
        pool: dict[Candidate, None] = dict(chosen)
        for _ in self._drawn(rng, 2 * len(pool), pool, compile_them=False):
            pass
        others = [c for c in pool if c not in chosen]
        if others:
            rows = np.stack([row for c in others if (row := self._rows[c]) is not None])
            drafted = draft_of(self.target)(rows)
            ranked = [others[at] for at in np.argsort(drafted, kind="stable")]
            for candidate in ranked[: int(self.count * DRAFTED)]:
                if candidate not in self._files:
                    yield candidate
        for turn in range(ROUNDS, 0, -1):
            yield from self._around(rng, (self.count - self.built) // turn)

    def _drawn(
        self, rng: random.Random, wanted: int, chosen: dict[Candidate, None],
        compile_them: bool = True,
    ) -> Iterator[Candidate]:  # fmt: skip
        """Random candidates of new programs, until `chosen` has so many; refusals are noted."""
        fruitless = 0
        while len(chosen) < wanted and fruitless < DRAWS:
            try:
                candidate = self.space.sample(rng)
            except Infeasible:
                return
            fruitless += 1
            if candidate not in chosen and self._is_new_program(candidate, chosen):
                fruitless = 0
                if not compile_them or candidate not in self._files:
                    yield candidate

    def _around(self, rng: random.Random, count: int) -> Iterator[Candidate]:
        """Neighbours of the fastest by a rough time, the very fastest's first."""
        if count <= 0:
            return
        self._time(self._rough, 0, ROUGH, self.folder / "rough.lock")
        times = {
            Candidate.from_json(e["candidate"]): min(e["times"])
            for e in self._rough.entries
            if e["status"] == "ok"
        }
        left = count
        for parent in sorted(times, key=lambda c: (times[c], c.key)):
            if not self.space.contains(parent):  # of the rules as they were
                continue
            near = self.space.neighbors(parent)
            rng.shuffle(near)
            for candidate in near:
                if candidate not in self._files and self._is_new_program(candidate, {}):
                    yield candidate
                    left -= 1
                    if left == 0:
                        return

    def _is_new_program(self, candidate: Candidate, chosen: dict[Candidate, None]) -> bool:
        """Whether there is a program, and this candidate the first that makes it; then it is put
        into `chosen`."""
        if candidate not in self._rows:
            self._score(candidate)
        first = self._rows[candidate] is not None and candidate in self._programs.values()
        if first:
            chosen[candidate] = None
        return first

    def _score(self, candidate: Candidate) -> None:
        row, refusal, program = None, "", ""
        try:
            schedule = self.space.build(candidate)
            row = np.asarray(self._extract(schedule), dtype=np.float32).tolist()
            self._made = candidate, schedule
            program = scheduled_program(schedule)
        except Refusal as error:
            refusal = error.headline
        self._scored.add(candidate=candidate.as_json(), row=row, refusal=refusal, key=program)
        self._know(candidate, row, program)

    def _program(self, candidate: Candidate) -> str:
        """The program of a candidate that a journal of an earlier version does not tell apart; one
        of its own, where rules do not make it any more."""
        try:
            return scheduled_program(self.space.build(candidate))
        except TensorIRError:
            return candidate.key

    def _know(self, candidate: Candidate, row: Sequence[float] | None, program: str) -> None:
        self._rows[candidate] = None if row is None else np.asarray(row, dtype=np.float32)
        if row is not None:
            self._told[candidate] = program
            self._programs.setdefault(program, candidate)

    def _compile(self, candidate: Candidate) -> None:
        file, error = None, ""
        last = self._made  # of the candidate that was scored last
        schedule = last[1] if last and last[0] == candidate else self.space.build(candidate)
        try:
            cache = cache_beside(self.folder)
            kernel = build(schedule, self.target, cache=cache, timeout=BUILD_SECONDS)
            file = keep(self.folder, kernel, str(self.func))
        except TensorIRError as failure:
            error = str(failure)[:200]
        self._built.add(candidate=candidate.as_json(), file=file, error=error)
        self._files[candidate] = file

    def _time(
        self, journal: Journal, visit: int, settings: MeasureSettings, lock: Path | None
    ) -> None:
        done = set()
        for e in journal.entries:
            if e["visit"] == visit or e["status"] != "ok":
                done.add(Candidate.from_json(e["candidate"]))
        todo = [c for c, file in self._files.items() if file is not None and c not in done]
        random.Random(f"{self.name}:{visit}").shuffle(todo)

        def store(part: Sequence[Candidate], index: int, result: MeasureResult) -> None:
            journal.add(
                candidate=part[index].as_json(), visit=visit, status=result.status,
                error=result.error[:200], times=result.times,
            )  # fmt: skip

        given = self.func, str(self.target), settings
        with Measurer(*given, builder=LOADER, lock=lock) as measurer:
            for candidate in todo:  # one by one: beside faster ones it would be timed less often
                path = str(self.folder / "sources" / str(self._files[candidate]))
                told = partial(store, [candidate])
                measurer.measure([path], check=visit == 0, on_result=told)
