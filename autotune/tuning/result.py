"""What tune returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autotune.database.ranking import outcome
from autotune.database.records import Record
from autotune.noise.gain import Gain, Outcome
from autotune.tuning.replay import replayed
from backends import CompiledKernel, build
from schedule import Schedule, Trace
from tensorir import PrimFunc, Target, TensorIRError

if TYPE_CHECKING:
    from autotune.cost_model.ceiling import Ceiling
    from autotune.tuning.expect import Expectation

SHOWN = 3
"""Reasons of refusals that are written out."""


@dataclass(frozen=True)
class TuneResult:
    """The best schedule known of `func`, and how it was found.

    record    the stored trial: its times, verdict, trace and decisions
    trials    distinct programs in the database; `measured` of them in this call
    seconds   wall time of this call's search; `phases` has those of each of
              `autotune.phases.PHASES`, as far as they are known
    history   seconds of each trial in order, None for one that failed
    work      operations of the function, for GFLOP/s; None if a size is symbolic
    notice    what the user should know, such as a missing package; "" for nothing
    statuses  number of trials by how they ended
    refusals  why schedules that this call's search made were refused, and were no trials
    built     schedules that this call's search made, to choose trials from
    expectation  what this call's search was expected to reach, before it had measured anything
    hints     where candidates are from that were best elsewhere and began this call's search, and
              what they were worth; "" where there were none
    ceiling   how well visits of the same trials agree, which bounds what a model can predict
    ended     why the search ended, such as "64 trials"; "" for a record that ships
    source    where the record is from, if it ships with the project: file, line, processor; its
              time is of that machine, which is one of the kind of this. "" for the database
    """

    func: PrimFunc
    record: Record
    target: Target
    trials: int
    measured: int
    seconds: float
    history: tuple[float | None, ...]
    work: int | None
    notice: str
    statuses: Mapping[str, int]
    refusals: Mapping[str, int] = field(default_factory=dict)
    built: int = 0
    source: str = ""
    expectation: Expectation | None = None
    hints: str = ""
    ceiling: Ceiling | None = None
    ended: str = ""
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def refused(self) -> str:
        """The refusals in words, the most frequent ones first; "" where there were none."""
        if not self.refusals:
            return ""
        ranked = sorted(self.refusals.items(), key=lambda item: (-item[1], item[0]))
        shown = [f"{count} x {reason}" for reason, count in ranked[:SHOWN]]
        more = f"; {len(ranked) - SHOWN} other reasons" if len(ranked) > SHOWN else ""
        count = sum(self.refusals.values())
        return f"{count} of {self.built} schedules that were made: {'; '.join(shown)}{more}"

    @property
    def outcome(self) -> Outcome | None:
        """What the race with the default schedule found, which `str` puts in words; None for a
        schedule that was in none, or in one of an earlier version."""
        return outcome(self.record)

    @property
    def speedup(self) -> float | None:
        """The default's time / that of the best schedule, in one race; None without a verdict."""
        return None if self._gain is None else 1 + self._gain.estimate

    @property
    def interval(self) -> tuple[float, float] | None:
        """What `speedup` is at least and at most, with the confidence of `outcome.gain`."""
        return None if self._gain is None else (1 + self._gain.low, 1 + self._gain.high)

    @property
    def _gain(self) -> Gain | None:
        found = self.outcome
        return None if found is None or found.busy else found.gain

    @property
    def from_database(self) -> bool:
        """Whether this call measured nothing."""
        return self.measured == 0

    @property
    def best_seconds(self) -> float:
        """The median time of the best schedule, seconds."""
        assert self.record.median is not None
        return self.record.median

    @property
    def gflops(self) -> float | None:
        """Billions of operations per second of the best schedule."""
        return None if self.work is None else self.work / self.best_seconds / 1e9

    @property
    def trace(self) -> Trace:
        """The steps of the best schedule."""
        return self.schedule.trace

    @property
    def schedule(self) -> Schedule:
        """The best schedule, replayed from its record."""
        return replayed(self.func, self.record)

    @property
    def constants(self) -> tuple[str, ...]:
        """The parameters that were taken to be known when a kernel is built."""
        stored = self.record.workload
        names = dict(zip((name for name, _, _ in stored.shapes), self.func.params))
        return tuple(names[name].name for name in stored.constants)

    def build(self, constants: Mapping[str, Any] | None = None) -> CompiledKernel:
        """Compile the best schedule, or load it from the object cache.

        `constants` are the arrays of what was tuned as constant, by name; see `backends.build`.
        Raises TensorIRError where one is missing or was not tuned as constant.
        """
        given = dict(constants or {})
        if set(given) != set(self.constants):
            names = ", ".join(f"{name!r}: array" for name in self.constants)
            remedy = f"constants={{{names}}}" if names else "no constants"
            raise TensorIRError(
                f"{self.func.name!r} was tuned with {remedy}, not with those of {sorted(given)}; "
                f"call build({remedy if names else ''}), or tune it with other constants"
            )
        return build(self.schedule, self.target, constants=given)

    def __repr__(self) -> str:
        rate = "" if self.gflops is None else f", {self.gflops:.1f} GFLOP/s"
        measured = f"{self.measured} new trials" if self.measured else "database"
        source = self.source.partition(":")[0] or measured
        return (
            f"TuneResult({self.func.name!r}: {self.best_seconds * 1e3:.4g} ms{rate}, "
            f"{'' if self.outcome is None else f'{self.outcome}, '}"
            f"{self.trials} trials, from {source})"
        )
