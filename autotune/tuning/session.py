"""Session: one search over one function, and what the database knows of it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autotune.calibration.device import device_for
from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.ranking import is_undecided
from autotune.database.records import Record, Workload
from autotune.knobs.space import OwnSpace, ScheduleFunction, own_space
from autotune.machine.machine import Machine, this_machine
from autotune.machine.toolchain import toolchain
from autotune.machine.work import flops
from autotune.measure import MeasureResult, MeasureSettings
from autotune.measure.busy import disturbance
from autotune.measure.design import Design, Made
from autotune.measure.scoring import made_for, outline
from autotune.noise.gain import Outcome
from autotune.phases import Phases
from autotune.rules import make_space
from autotune.search import SearchState
from autotune.space import Candidate, Space
from autotune.tuning.batches import split_open
from autotune.tuning.names import as_stored
from autotune.tuning.options import USUAL, Options
from autotune.tuning.replay import choices_of, is_current, known_candidate, replayed
from autotune.tuning.start import make_state, measured_on
from schedule import Schedule
from tensorir import (
    Costs,
    Cpu,
    Numbers,
    PrimFunc,
    Target,
    TensorIRError,
    allows,
    split_constants,
)

if TYPE_CHECKING:
    from autotune.tuning.expect import Expectation

RACES = 2
"""Races without a verdict after which the same trials are raced no more."""


@dataclass
class Session:
    """What is fixed during a search, and what has been measured.

    asked   the program that is tuned; `func` is the same, by the names that its stored trials have
            for it, as are `sizes`
    trials  distinct programs in the database, those of earlier runs included
    state   what the search strategy decides from: all trials but those of a batch that is open
    work    operations of the function; None if a size is symbolic
    conditions  what decides times besides program, target and machine
    rules   hash of the design space; trials of another one count for nothing and are remembered
    skipped stored trials that are none of this version
    notice  what the user should know of cost model and shipped records; "" for nothing
    stored  records of trials that the database had when the session was started
    sources hashes of the source texts of trials; none where these do not tell kernels apart
    others  share of the processors that other programs had while times were taken
    expectation  what is expected where nothing was measured yet
    phases  what the seconds of the search are spent in
    """

    asked: PrimFunc
    func: PrimFunc
    target: Target
    space: Space
    database: Database
    seed: int
    settings: MeasureSettings
    numerics: str
    workload: Workload
    machine: Machine
    state: SearchState
    work: int | None
    conditions: Conditions
    rules: str
    notice: str
    sizes: Numbers = field(default_factory=dict)
    costs: Costs | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    trials: int = 0
    skipped: int = 0
    stored: int = 0
    others: float | None = None
    expectation: Expectation | None = None
    phases: Phases = field(default_factory=Phases, repr=False)
    _open: list[Record] = field(default_factory=list, repr=False)
    sources: set[str] = field(default_factory=set, repr=False)
    _repeated: set[Candidate] = field(default_factory=set, repr=False)
    _counted: set[str] = field(default_factory=set, repr=False)
    _current: dict[str, bool] = field(default_factory=dict, repr=False)
    _made: dict[str, Schedule | None] = field(default_factory=dict, repr=False)
    _built: dict[str, Schedule | Design] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> int:
        """Trials, and candidates that repeat one."""
        return self.trials + len(self._repeated)

    def trial_records(self) -> list[Record]:
        """The stored trials, oldest first, without the records of final races."""
        return [r for r in self._records() if not r.is_final]

    def counted(self) -> list[Record]:
        """The stored trials of this design space that the wanted numerics class allows."""
        return [r for r in self.trial_records() if self.counts(r)]

    def counts(self, record: Record) -> bool:
        return record.rules == self.rules and self.allows(record) and record.is_trial

    def stored_best(self) -> Record | None:
        """The best record that the wanted numerics class allows and whose code is that of today."""
        return next((record for record in self._ranked() if self.is_current(record)), None)

    def answer(self) -> Record | None:
        """The best record, where nothing is left to race."""
        return self.stored_best() if self.is_settled() else None

    def is_settled(self) -> bool:
        """Whether a race of today's code told the best, and no trial came after that; so many races
        without a verdict are as good as one, or else a busy machine would race for ever."""
        best = self.stored_best()
        if best is None or not best.is_final or self.is_outdated():
            return False
        races = self._races()
        return len(_undecided(races)) >= RACES or not all(map(is_undecided, races))

    def is_outdated(self) -> bool:
        """Whether a schedule that won a race makes other code today, and was not raced since."""
        raced = [record for record in self._ranked() if record.is_final]
        for record in raced:
            if self.is_current(record):
                return False
            again = (r for r in raced if r.trace == record.trace)
            if self.replayed(record) is not None and not any(map(self.is_current, again)):
                return True
        return False

    def is_current(self, record: Record) -> bool:
        """Whether the record's schedule can still be made, and makes the code that was timed."""
        if record.id not in self._current:
            replay = self.replayed if str(self.func) == record.workload.text else None
            self._current[record.id] = is_current(record, self.target, replay)
        return self._current[record.id]

    def made(self, record: Record) -> Schedule | Design | None:
        """What makes the record's program: that by which this very search had it built, else its
        schedule; None where this version cannot make it."""
        return self._built.get(record.id) or self.replayed(record)

    def replayed(self, record: Record) -> Schedule | None:
        """The record's schedule; None where this version cannot make it."""
        steps = json.dumps([record.workload.text, record.trace])
        if steps not in self._made:
            try:
                self._made[steps] = replayed(self.func, record)
            except TensorIRError:
                self._made[steps] = None
        made = self._made[steps]
        return None if made is None else made.copy()

    def last_race(self) -> list[Record]:
        """The records of the latest race after the last trial that counts; none without one."""
        races = self._races()
        return [record for record in races if record.session == races[-1].session]

    def _races(self) -> list[Record]:
        """The records of races after the last trial that counts: a run can be killed before it."""
        found = self._records()
        trials = [at for at, r in enumerate(found) if not r.is_final and self.counts(r)]
        later = found[max(trials, default=-1) + 1 :]
        return [r for r in later if r.is_final and self.allows(r)]

    @property
    def function(self) -> str:
        """The schedule function whose space is searched; "" where it is that of the rules."""
        return self.space.function if isinstance(self.space, OwnSpace) else ""

    @property
    def default(self) -> Candidate:
        """The candidate that needs no tuning, which races with the best."""
        return self.state.defaults[0]

    def _records(self) -> list[Record]:
        """What is stored of this work, of the rules or of the function that is searched."""
        found = self.database.records(
            self.workload, self.target, self.machine, conditions=self.conditions
        )
        return [record for record in found if record.function == self.function]

    def _ranked(self) -> Iterator[Record]:
        """The same, the correct ones that the wanted numerics class allows, best first."""
        found = self.database.ranked(
            self.workload, self.target, self.machine, self.numerics, self.conditions
        )
        return (record for record in found if record.function == self.function)

    def allows(self, record: Record) -> bool:
        """Whether the wanted numerics class allows what a record's schedule does."""
        return allows(self.numerics, record.numerics)

    def statuses(self) -> Counter[str]:
        """How the stored trials ended."""
        return Counter(r.status for r in self.counted())

    def remember(self, record: Record) -> None:
        """Take a stored trial into the search state."""
        self.count(record)
        self.learn(record)

    def count(self, record: Record) -> None:
        """Count a stored trial; one that is none of this version is skipped."""
        candidate = known_candidate(record, self.space, self.state.defaults)
        if candidate is None:
            self.skipped += 1
        elif self.counts(record):
            self._counted.add(record.identity)
            self.trials = len(self._counted)
            if not self.target.on_gpu:  # there, how it is launched is no part of the text
                self.sources |= {record.source_hash} - {""}
        elif record.status == "repeated" and record.rules == self.rules:
            self._repeated.add(candidate)

    def learn(self, record: Record) -> None:
        """Take a counted trial into the search state."""
        candidate = known_candidate(record, self.space, self.state.defaults)
        if candidate is not None and record.status == "repeated":
            self.state.reject(candidate, record.program)
        elif candidate is not None:
            seconds = record.median if record.status in ("ok", "pruned") else None
            self.state.add(candidate, seconds, record.program, record.predicted)

    def note(self, text: str) -> None:
        """Have `told` say this too."""
        self.notice = "; ".join(filter(None, (self.notice, text)))

    def told(self) -> str:
        """What the user should know of the cost model and of what was stored; "" for nothing."""
        texts = [self.notice, self.database.note(), disturbance([self.others])]
        if self.skipped:
            trials = f"{self.skipped} stored trial{'s' * (self.skipped > 1)}"
            texts.append(
                f"{trials} of other versions of this project, whose choices this one does not"
                " have, are skipped"
            )
        texts.append(_told_of(self._races()))
        return "; ".join(filter(None, texts))

    def load(self) -> None:
        """Count and learn what is stored; what belongs to a batch that is open is only counted."""
        records = self.trial_records()
        self.stored = len(records)
        known, self._open = split_open(records, self.seed, self.rules)
        for record in known:
            self.remember(record)
        for record in self._open:
            self.count(record)

    @property
    def is_open(self) -> bool:
        """Whether a batch was cut off, which is the next to be measured."""
        return bool(self._open)

    def take_open(self) -> list[Record]:
        """The counted trials that the state does not know, since their batch was cut off."""
        found, self._open = self._open, []
        return found

    def design(self, candidate: Candidate) -> Design:
        """A candidate to measure. Workers make its schedule where they know the space."""
        program = self.state.program(candidate)
        request = made_for(self.numerics, self.rules, self.costs) if self.state.ahead else None
        return Design(self.space, candidate, program, request)

    def _own(self, candidate: Candidate) -> dict[str, Any] | None:
        if not self.function:
            return None
        return {"function": self.function, "knobs": list(self.space.decisions(candidate))}

    def record(
        self,
        candidate: Candidate,
        schedule: Schedule | Design,
        result: MeasureResult,
        predicted: float | None,
        race: Outcome | None = None,
        batch: int | None = None,
    ) -> Record:
        """The record of one measurement: a trial, or what a race found about one. Its code is that
        of today, since this very search had it built."""
        settings, made = self.settings.to_json(), Made.of(schedule)
        if race is not None:
            from autotune.tuning.transfer import told

            found = {"phases": self.phases.so_far(), "hints": told(self)}
            settings = {**settings, "final": True, **found}
        record = Record(
            workload=self.workload,
            target=str(self.target),
            features=self.target.features,
            machine_key=self.machine.key,
            machine=self.machine.to_json(),
            conditions=self.conditions,
            rules=self.rules,
            toolchain=toolchain(self.target),
            settings=settings,
            session=self.name,
            seed=self.seed,
            trial=self.trials,
            batch=batch,
            race=None if race is None else race.to_json(),
            own=self._own(candidate),
            sketch=candidate.sketch,
            choices=choices_of(self.space, candidate),
            decisions=list(candidate.values),
            trace=made.trace,
            program=made.program,
            predicted=predicted,
            numerics=made.numerics,
            **result.record_fields(),
        )
        self._current[record.id], self._built[record.id] = True, schedule
        return record


def _undecided(races: Iterable[Record]) -> set[str]:
    """The sessions of those races that came to no verdict, since the machine was busy."""
    return {record.session for record in races if is_undecided(record)}


def _told_of(races: Sequence[Record]) -> str:
    """What to say where none of the races came to a verdict, and whether there is another one."""
    held = len(_undecided(races))
    if not held or not all(map(is_undecided, races)):
        return ""
    more = "with further trials" if held >= RACES else "by the next call"
    many = "1 race" if held == 1 else f"{held} races"
    return f"{many} without a verdict, since other programs disturbed them: one more is held {more}"


def start_session(
    func: PrimFunc,
    target: str | Target,
    database: Database,
    seed: int,
    how: Options = USUAL,
    sizes: Numbers | None = None,
    constants: Collection[str] = (),
    function: ScheduleFunction | None = None,
) -> Session:
    """A session that knows the trials which the database has of this work.

    function  makes the schedules that are searched; None for those of the rules
    """
    resolved = measured_on(func, target, sizes)
    device = device_for(resolved, how.costs)
    facts = this_machine()
    asked, sizes = func, sizes or {}
    if function is None:  # one that a user wrote asks for the names of this program
        func, sizes, constants = as_stored(database, func, sizes, constants, resolved, facts)
    workload = Workload.of(func, constants)
    space = (
        make_space(func, device, how.numerics, constants=workload.constants)
        if function is None
        else own_space(func, function)
    )
    state = make_state(space, resolved, seed, how.numerics, how.cost_model, workload)
    settings = how.settings or MeasureSettings(threads=resolved.threads)
    # A number that is no size decides no loop: it is to a schedule what the data are.
    known = {v.name: int(sizes[v.name]) for v in func.size_vars}
    session = Session(
        asked=asked,
        func=func,
        target=resolved,
        space=space,
        database=database,
        seed=seed,
        settings=settings,
        numerics=how.numerics,
        workload=workload,
        machine=facts,
        state=state,
        work=flops(split_constants(func, constants).main),
        conditions=Conditions.here(resolved, known, settings.threads, settings.is_cold),
        rules=outline(space, resolved),
        notice=getattr(state.model, "notice", None) or "",
        sizes=sizes,
        costs=device.costs if how.costs is not None and isinstance(device, Cpu) else None,
    )
    if isinstance(space, OwnSpace) and space.refusals:
        session.note(f"left out, since no schedule could be made: {'; '.join(space.refusals)}")
    session.load()
    return session
