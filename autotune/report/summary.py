"""What the trials of one workload tell: times, why some failed, how good the predictions were."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autotune.cost_model import Quality, quality
from autotune.cost_model.ceiling import Ceiling
from autotune.database.ranking import ranking
from autotune.database.records import Record
from autotune.database.rows import conditions_key
from autotune.phases import in_words
from autotune.rules import choose
from autotune.space import Candidate
from autotune.tuning.failures import headline
from autotune.tuning.repeats import noise_ceiling
from autotune.tuning.replay import candidate_of
from backends import resolve
from tensorir import DEFAULT_NUMERICS, PrimFunc, Target, TensorIRError, device_of, parse


@dataclass(frozen=True)
class Report:
    """The trials of one workload, target, machine and conditions, in the order they were made.

    races     candidates with their records of final races, which are what counts; best first
    statuses  number of trials by how they ended
    failures  (status, first line of the error) with counts, most frequent first
    quality   the cost model's predictions against the times
    ceiling   how well visits of the same trials agree, which bounds the quality of predictions
    curve     seconds of the best trial so far, after each trial; inf before the first success
    """

    trials: tuple[Record, ...]
    races: Mapping[str, Record]
    statuses: Mapping[str, int]
    failures: tuple[tuple[tuple[str, str], int], ...]
    quality: Quality
    ceiling: Ceiling
    curve: tuple[float, ...]

    @property
    def fastest(self) -> list[Record]:
        """The best first: those that were raced, other successes, pruned ones, failures."""
        return sorted(self.trials, key=self._rank)

    @property
    def best(self) -> Record | None:
        """The trial that won the races, or else the fastest one; None if none succeeded."""
        first = next(iter(self.fastest), None)
        return first if first is not None and first.status == "ok" else None

    def race_of(self, record: Record) -> Record | None:
        """The final race of a trial's candidate, if it took part in one."""
        return self.races.get(_identity(record)) if record.status == "ok" else None

    def seconds(self, record: Record) -> float | None:
        """The time that counts: of the race, or else of the trial."""
        race = self.race_of(record)
        return record.median if race is None else race.median

    def number(self, record: Record) -> int:
        """The place of a trial among all, from 1."""
        return next(n for n, other in enumerate(self.trials, 1) if other is record)

    def default(self) -> Record | None:
        """The trial of the schedule that needs no tuning; None where it is not known."""
        return self._default_trial

    @cached_property
    def _default_trial(self) -> Record | None:
        if not self.trials:
            return None
        first = self.trials[0]
        try:
            func, target = parse(first.workload.text), resolve(first.target)
            candidate = _default(func, target, first.workload.constants)
        except TensorIRError:  # a target or a program that this machine or version cannot make
            return None
        return next((r for r in reversed(self.trials) if candidate_of(r) == candidate), None)

    def _rank(self, record: Record) -> tuple[int, float]:
        kinds = (self.race_of(record) is not None, record.status == "ok", record.status == "pruned")
        kind = kinds.index(True) if any(kinds) else len(kinds)
        if kind == 0:
            return kind, list(self.races).index(_identity(record))
        return kind, self.seconds(record) or math.inf


def summarize(records: Sequence[Record]) -> Report:
    """The report of records of one workload, target, machine and conditions, in stored order."""
    trials = tuple(r for r in records if r.is_trial)
    failed = [r for r in trials if r.has_failed]
    counts = Counter((r.status, headline(r.error)) for r in failed)
    guessed = [r for r in trials if r.predicted is not None and r.status == "ok"]
    races: dict[str, Record] = {}
    for record in ranking(r for r in records if r.is_final):
        races.setdefault(_identity(record), record)
    return Report(
        trials,
        races,
        Counter(r.status for r in trials),
        tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        quality(np.array([r.predicted for r in guessed]), np.array([r.median for r in guessed])),
        noise_ceiling(trials),
        tuple(_best_so_far(trials)),
    )


def places(records: Iterable[Record]) -> list[list[Record]]:
    """The records in groups of one workload, target, machine and conditions each."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        conditions = conditions_key(record.conditions)
        key = (record.workload.key, record.target, record.machine_key, conditions)
        found.setdefault(key, []).append(record)
    return list(found.values())


def spent_text(records: Sequence[Record]) -> str:
    """What the seconds of the latest search that raced were spent in; "" where no race tells."""
    told = _told(records, "phases", Mapping) or {}
    known = {p: s for p, s in told.items() if isinstance(s, (int, float)) and s > 0}
    total = sum(known.values())
    return f"{total:.1f} s: {in_words(known, total)}" if total else ""


def hints_text(records: Sequence[Record]) -> str:
    """What that search tried that was best elsewhere, and what it was worth; "" for nothing."""
    return _told(records, "hints", str) or ""


def _told(records: Sequence[Record], name: str, kind: Any) -> Any:
    """What the latest race tells of its search under a name; None where none tells."""
    told = (r.settings.get(name) for r in reversed(records) if r.is_final)
    return next((found for found in told if isinstance(found, kind)), None)


def default_time(
    func: PrimFunc, target: Target, records: Iterable[Record], constants: Collection[str] = ()
) -> Record | None:
    """The record of the schedule that needs no tuning: of its latest race, or else its trial.

    `target` must be resolved.
    """
    default = _default(func, target, constants)
    found = [r for r in records if r.status == "ok" and candidate_of(r) == default]
    return max(reversed(found), key=lambda r: r.is_final, default=None)


def _default(func: PrimFunc, target: Target, constants: Collection[str]) -> Candidate:
    first = choose(func, device_of(target), DEFAULT_NUMERICS, constants).sketch
    return Candidate(first.name, first.default(constants))


def status_text(statuses: Mapping[str, int]) -> str:
    """ "12 ok, 1 crash": successes first."""
    ordered = sorted(statuses.items(), key=lambda item: (item[0] != "ok", -item[1], item[0]))
    return ", ".join(f"{number} {status}" for status, number in ordered)


def _best_so_far(trials: Iterable[Record]) -> Iterable[float]:
    best = math.inf
    for record in trials:
        if record.status == "ok" and record.median is not None:
            best = min(best, record.median)
        yield best


def _identity(record: Record) -> str:
    return f"{record.sketch} {record.decisions}"
