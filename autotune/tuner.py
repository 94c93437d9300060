"""tune: search for the fastest schedule of a function, and remember it.

The search is a pure function of the seed and of what was measured: batches are proposed from the
records, every finished trial is stored at once, and a run that was killed goes on where it was.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotune.cost_model import make_cost_model
from autotune.database import Database
from autotune.features import extract
from autotune.machine import Machine as MachineFacts
from autotune.machine import this_machine
from autotune.measure import Measurer, MeasureResult, MeasureSettings
from autotune.oracle import make_oracle
from autotune.progress import Progress, make_progress
from autotune.records import Record, Workload
from autotune.result import TuneResult
from autotune.rules import default_candidate, machine_of, make_space
from autotune.search import STRATEGIES, SearchState
from autotune.space import Candidate, Space
from autotune.toolchain import toolchain
from autotune.work import flops
from backends import resolve
from schedule import Schedule, ScheduleError, Trace
from tensorir import PrimFunc, Target, TensorIRError

DEFAULT_CACHES = {"L1d": 32 << 10, "L2": 1 << 20, "L3": 16 << 20}
"""Bytes, for a system that does not tell."""

DEFAULT_DATABASE = "tuning_logs/tuning.db"
BATCH = 8
"""Candidates per batch: small, so that the model learns early."""

FINALISTS = 4
NO_BEST = "no candidate of {name!r} ran correctly in {trials} trials ({counts})"


@dataclass
class Session:
    """One run of the search over one function: what is fixed, and what has been measured."""

    func: PrimFunc
    target: Target
    space: Space
    database: Database
    seed: int
    settings: MeasureSettings
    numerics: str
    workload: Workload
    machine: MachineFacts
    work: int | None
    state: SearchState
    notice: str
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    trials: int = 0

    def remember(self, record: Record) -> None:
        """Take a stored trial into the search state."""
        candidate = candidate_of(record)
        if candidate is not None and self.space.contains(candidate):
            self.state.add(candidate, record.median if record.status == "ok" else None)

    def predicted(self, candidate: Candidate) -> float | None:
        """Seconds that the cost model expects."""
        row = self.state.features(self.space, candidate)
        return None if row is None else float(self.state.model.predict(row[None])[0])


def tune(
    func: PrimFunc,
    target: str | Target = "c",
    trials: int = 64,
    seed: int = 0,
    database: str | Path | Database | None = DEFAULT_DATABASE,
    *,
    numerics: str = "reassociated",
    strategy: str = "evolutionary",
    cost_model: str = "auto",
    settings: MeasureSettings | None = None,
    sizes: Mapping[str, int] | None = None,
    progress: bool | None = None,
    time_limit: float | None = None,
) -> TuneResult:
    """The fastest schedule of `func` found in `trials` trials, from the database where it can be.

    target      what to compile for
    trials      distinct candidates to have compiled and run, those already in the database counted;
                if there are that many, nothing is measured
    seed        of the search and of the inputs; equal seeds and equal times give equal searches
    database    path or Database where every trial is stored as soon as it is finished; None keeps
                them in memory
    numerics    "bitwise" searches only schedules that keep the order of every floating-point sum,
                "reassociated" all of them
    strategy    "evolutionary" or "random"; cost_model "auto", "xgboost", "sklearn" or "random"
    settings    how to measure
    sizes       values of symbolic sizes to measure with
    progress    show it; None shows it on a terminal
    time_limit  seconds after which no further batch of trials is begun

    Raises TensorIRError if no candidate ran correctly. Ctrl-C leaves all finished trials stored.
    """
    if trials < 1:
        raise TensorIRError(f"trials must be at least 1, not {trials}")
    owned = not isinstance(database, Database)
    db = _open(database) if not isinstance(database, Database) else database
    try:
        session = _start(func, target, db, seed, numerics, cost_model, settings, sizes)
        stored = _stored_best(session)
        if stored is not None and session.trials >= trials:
            return _result(session, stored, measured=0, seconds=0.0)
        begun = time.perf_counter()
        deadline = math.inf if time_limit is None else begun + time_limit
        measured = _search(session, trials, strategy, sizes, make_progress(progress), deadline)
        best = _stored_best(session)
        if best is None:
            counts = ", ".join(f"{n} {s}" for s, n in sorted(_statuses(session).items()))
            raise TensorIRError(
                NO_BEST.format(name=func.name, trials=session.trials, counts=counts)
            )
        return _result(session, best, measured, time.perf_counter() - begun)
    finally:
        if owned:
            db.close()


def _open(database: str | Path | None) -> Database:
    return Database(":memory:" if database is None else database)


def _start(
    func: PrimFunc,
    target: str | Target,
    db: Database,
    seed: int,
    numerics: str,
    cost_model: str,
    settings: MeasureSettings | None,
    sizes: Mapping[str, int] | None,
) -> Session:
    if numerics not in ("bitwise", "reassociated"):
        raise TensorIRError(f"numerics {numerics!r} is neither 'bitwise' nor 'reassociated'")
    resolved = resolve(target)
    machine = machine_of(resolved)
    space = make_space(func, machine)
    missing = [v.name for v in func.size_vars if v.name not in (sizes or {})]
    if missing:
        raise TensorIRError(f"sizes={{{missing[0]!r}: ...}} is needed to measure {func.name!r}")
    settings = settings or MeasureSettings(threads=resolved.threads)
    facts = this_machine()
    caches = tuple(facts.caches.get(name, size) for name, size in DEFAULT_CACHES.items())
    bits = resolved.vector_bits or 128

    def features(schedule: Schedule) -> np.ndarray:
        if numerics == "bitwise" and schedule.numerics != "bitwise":
            raise ScheduleError("tune", "", "the schedule is not bitwise", None, None, None)
        return extract(schedule.func, bits, machine.threads, caches)

    model = make_cost_model(cost_model, seed)
    state = SearchState(model, features, defaults=[default_candidate(space)])
    session = Session(
        func, resolved, space, db, seed, settings, numerics, Workload.of(func), facts,
        flops(func), state, getattr(model, "notice", None) or "",
    )  # fmt: skip
    for record in _trial_records(session):
        session.remember(record)
        session.trials += 1
    return session


def _trial_records(session: Session) -> list[Record]:
    found = session.database.records(session.workload, session.target, session.machine)
    return [r for r in found if not r.is_final]


def _stored_best(session: Session) -> Record | None:
    return session.database.best(
        session.workload, session.target, session.machine, session.numerics
    )


def _statuses(session: Session) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in _trial_records(session):
        counts[record.status] = counts.get(record.status, 0) + 1
    return counts


def _search(
    session: Session,
    trials: int,
    strategy: str,
    sizes: Mapping[str, int] | None,
    show: Progress,
    deadline: float,
) -> int:
    """Measure until `trials` are stored, nothing new is left or time.perf_counter() has reached
    `deadline`; returns how many were measured."""
    if strategy not in STRATEGIES:
        raise TensorIRError(f"unknown strategy {strategy!r}; known are {', '.join(STRATEGIES)}")
    propose = STRATEGIES[strategy]
    oracle = make_oracle(session.func, session.settings.seed, sizes)
    before = session.trials
    best = _stored_best(session)
    with (
        Measurer(session.func, str(session.target), session.settings, reference=oracle,
                 sizes=sizes, report=show.message) as measurer,
        show.task(session.func.name, session.trials, trials, session.work) as task,
    ):  # fmt: skip
        task.best(None if best is None else best.median)
        while session.trials < trials and time.perf_counter() < deadline:
            count = min(BATCH, trials - session.trials)
            rng = random.Random(f"{session.seed}:{session.trials}")
            session.state.fit(session.space)
            batch = propose(session.space, session.state, count, rng)
            if not batch:
                break
            _measure(session, measurer, batch, task.advance)
        if session.trials > before:
            task.phase("racing the best")
            _final_race(session, measurer)
    return session.trials - before


def _measure(
    session: Session, measurer: Measurer, batch: Sequence[Candidate], advance: Callable[..., None]
) -> None:
    """Measure a batch; each trial is stored as soon as it is finished."""
    schedules = [session.space.build(candidate) for candidate in batch]
    predicted = [session.predicted(candidate) for candidate in batch]

    def store(index: int, result: MeasureResult) -> None:
        session.trials += 1
        record = _record(session, batch[index], schedules[index], predicted[index], result)
        session.database.add(record)
        session.remember(record)
        advance(record)

    ranked = session.state.ranked()
    incumbent = session.state.measured[ranked[0]] if ranked else None
    measurer.measure(schedules, incumbent=incumbent, on_result=store)


def _record(
    session: Session,
    candidate: Candidate,
    schedule: Schedule,
    predicted: float | None,
    result: MeasureResult,
    **more: Any,
) -> Record:
    return Record(
        workload=session.workload,
        target=str(session.target),
        features=session.target.features,
        machine_key=session.machine.key,
        machine=session.machine.to_json(),
        toolchain=toolchain(session.target),
        settings={**session.settings.to_json(), **more},
        session=session.name,
        seed=session.seed,
        trial=session.trials,
        sketch=candidate.sketch,
        decisions=list(candidate.values),
        trace=tuple(schedule.trace.as_json()),
        predicted=predicted,
        numerics=schedule.numerics,
        **result.record_fields(),
    )


def _final_race(session: Session, measurer: Measurer) -> None:
    """Time the best candidates and the default one in turn; the winner's record is what counts.

    A single measurement favours the lucky: the fastest of many is partly noise.
    """
    trials = [r for r in _trial_records(session) if r.status == "ok" and _allowed(session, r)]
    trials.sort(key=lambda r: (r.median, r.id))
    finalists = trials[:FINALISTS]
    default = default_candidate(session.space)
    finalists += [r for r in trials[FINALISTS:] if candidate_of(r) == default]
    if not finalists:
        return
    schedules = [Schedule(session.func).apply(Trace.from_json(r.trace)) for r in finalists]
    times = measurer.race(schedules)
    for record, schedule, blocks in zip(finalists, schedules, times):
        candidate = candidate_of(record)
        assert candidate is not None
        median = sorted(blocks)[len(blocks) // 2]
        result = MeasureResult("ok", "", blocks, median, record.verdict, record.build_seconds)
        final = _record(session, candidate, schedule, record.predicted, result, final=True)
        session.database.add(final)


def _allowed(session: Session, record: Record) -> bool:
    return session.numerics != "bitwise" or record.numerics == "bitwise"


def candidate_of(record: Record) -> Candidate | None:
    """The candidate that a record measured; None for a record without decisions."""
    if not record.sketch or record.decisions is None:
        return None
    return Candidate.from_json([record.sketch, record.decisions])


def _result(session: Session, best: Record, measured: int, seconds: float) -> TuneResult:
    history = [r.median if r.status == "ok" else None for r in _trial_records(session)]
    return TuneResult(
        func=session.func,
        record=best,
        target=session.target,
        trials=session.trials,
        measured=measured,
        seconds=seconds,
        history=tuple(history),
        work=session.work,
        notice=session.notice,
        statuses=_statuses(session),
    )
