"""What a search has found, as a result, or as an error where nothing ran."""

from __future__ import annotations

from dataclasses import replace

from autotune.database.records import Record
from autotune.tuning.failures import describe_failures
from autotune.tuning.result import TuneResult
from autotune.tuning.session import Session
from autotune.tuning.shipped import shipped_answer
from tensorir import TensorIRError


def shipped_result(session: Session, trials: int) -> TuneResult | None:
    """The result by a record that ships and took so many trials; None where there is none."""
    known = shipped_answer(session, trials)
    if known is None:
        return None
    found = result_of(session, known.record, measured=0, seconds=0.0)
    return replace(found, trials=known.trials, source=str(known))


def result_of(
    session: Session, best: Record, measured: int, seconds: float, ended: str = ""
) -> TuneResult:
    """What a search has found, with `measured` trials in so many seconds."""
    from autotune.tuning.repeats import noise_ceiling
    from autotune.tuning.transfer import told

    records = session.counted()
    return TuneResult(
        func=session.asked,
        record=best,
        target=session.target,
        trials=session.trials,
        measured=measured,
        seconds=seconds,
        history=tuple(r.median if r.status == "ok" else None for r in records),
        work=session.work,
        notice=session.told(),
        statuses=session.statuses(),
        refusals=dict(session.state.refusals),
        built=session.state.builds,
        ceiling=noise_ceiling(records),
        expectation=session.expectation,
        hints=told(session),
        ended=ended,
        phases=dict(session.phases.seconds),
    )


def nothing_ran(session: Session) -> TensorIRError:
    """The error of a search that has no result, with the reasons."""
    reasons = describe_failures(session.counted()) or "; ".join(session.state.refusals)
    return TensorIRError(
        f"no candidate of {session.func.name!r} ran correctly in {session.trials} trials: {reasons}"
    )
