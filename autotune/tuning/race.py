"""The race at the end of a search, whose verdict is what counts.

A single measurement favours the lucky: the fastest of many is partly noise. All candidates that
cannot be told apart from the best are timed in turns with the default one, which stays the answer
unless another one is certainly faster. The records of a race are stored together or not at all; a
search that was killed in its race begins that again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.database.records import Record
from autotune.measure import Measurer, MeasureResult
from autotune.measure.design import Design, Made
from autotune.noise.finalists import finalists, most_finalists
from autotune.noise.gain import Outcome
from autotune.noise.race import Race
from autotune.noise.visits import Visit
from autotune.tuning.replay import candidate_of
from autotune.tuning.session import Session
from schedule import Schedule

Finalist = tuple[Record, Schedule | Design]
"""The latest trial of a candidate, and what makes its program."""


def final_race(session: Session, measurer: Measurer, codes: Sequence[str] = ()) -> None:
    """Race the best candidates, and store what was found; nothing where nothing ran.

    codes  those of records whose schedules take part too, as far as they were tried
    """
    entered = _entered(session, measurer, codes)
    if not entered:
        return
    race = Race(len(entered), default=0, round_s=sum(r.median or 0.0 for r, _ in entered))
    programs = [program for _, program in entered]
    while race.wanted:
        running = [programs[at] for at in race.running]
        rounds = measurer.race(running, race.wanted, len(race.times))
        race.add(np.array(rounds.times).T, rounds.busy)
    quiet = race.times[~race.busy]
    raced = [
        _record(session, *finalist, quiet[:, at], outcome)
        for at, (finalist, outcome) in enumerate(zip(entered, race.outcomes()))
    ]
    session.database.add_many(raced)  # all or none: a part of a race would decide it


def _record(
    session: Session, trial: Record, program: Schedule | Design, times: np.ndarray, outcome: Outcome
) -> Record:
    """With the times of the rounds that nothing disturbed, or of the trial where there are none."""
    blocks = tuple(map(float, times[np.isfinite(times)])) or trial.times
    result = MeasureResult(
        "ok", "", blocks, float(np.median(blocks)), trial.verdict, trial.build_seconds,
        source_hash=trial.source_hash,
    )  # fmt: skip
    candidate = candidate_of(trial)
    assert candidate is not None
    return session.record(candidate, program, result, trial.predicted, race=outcome)


def _entered(session: Session, measurer: Measurer, codes: Sequence[str]) -> list[Finalist]:
    """Who takes part, each program once: the default first, or else what is the best so far.

    The winner of an earlier race takes part too, so that a later one is never the worse for it.
    """
    trials = [r for r in session.trial_records() if r.status == "ok" and session.allows(r)]
    latest = {c: r for r in trials if r.times and (c := candidate_of(r)) is not None}
    best = session.stored_best()
    kept = [session.default, *([] if best is None else [candidate_of(best)])]
    ranked = sorted(latest, key=lambda c: (latest[c].median, c.key))
    most = most_finalists(latest[ranked[0]].median or 0.0) if ranked else 0
    near = [ranked[at] for at in finalists([_visits(latest[c]) for c in ranked], most)]
    asked = [candidate for candidate, r in latest.items() if r.code in codes]
    entered: dict[str, Finalist] = {}
    for candidate in [*(c for c in kept if c in latest), *asked, *near]:
        for record, program in _renewed(session, measurer, latest[candidate]):
            entered.setdefault(Made.of(program).program, (record, program))
    return list(entered.values())


def _visits(record: Record) -> list[Visit]:
    """The visits of a trial; in earlier versions it had blocks in a row, of which one counts."""
    if record.visits:
        return [Visit.from_json(each) for each in record.visits]
    return [Visit(float(np.median(record.times)))]


def _renewed(session: Session, measurer: Measurer, record: Record) -> list[Finalist]:
    """The trial with its program; checked and timed again where its code is another one today."""
    program, candidate = session.made(record), candidate_of(record)
    if program is None or candidate is None:
        return []
    if not session.is_current(record):
        result = measurer.measure([program])[0]
        record = session.record(candidate, program, result, record.predicted)
        session.database.add(record)
        session.remember(record)
    return [(record, program)] if record.status == "ok" else []
