"""An audit of records: do their steps still work, is what they make right, are times still so.

Every successful record is replayed. Those that queries answer with, the best of each kind, are
also compiled and compared with their definition, on machines of their kind, and timed again in
turns with the schedule that needs no tuning, if that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from autotune.database.conditions import Conditions
from autotune.database.kinds import differences, kind_here, kind_of
from autotune.database.ranking import competing
from autotune.database.records import Record
from autotune.default import default_schedule
from autotune.machine.machine import this_machine
from autotune.measure import Measurer, MeasureSettings
from autotune.measure.lock import Report
from autotune.tuning.replay import replayed, source_hash
from schedule import Schedule
from tensorir import DEFAULT_NUMERICS, PrimFunc, Target, TensorIRError, parse

SOUND, CHANGED, IMPOSSIBLE, FAILED = "sound", "changed", "impossible", "failed"
"""sound       its steps make the code that was timed; the result is right, where it was run
changed     its steps make other code today: `tune` times it again before it answers with it
impossible  this version cannot make its steps
failed      run today, it did not give the right result, or none"""

ROUNDS = 4
"""Rounds in turns with the default, in multiples of what the settings give one candidate."""


@dataclass(frozen=True)
class Finding:
    """What an audit says of one record.

    state    one of the constants above
    detail   why it is not sound, or why a sound one was not run; "" for nothing
    status   how it ended when it was run, as in records; "" where it was not
    seconds  its median time today, and `default` that of the default schedule, taken in turns
    """

    record: Record
    state: str
    detail: str = ""
    status: str = ""
    seconds: float | None = None
    default: float | None = None

    @property
    def drift(self) -> float | None:
        """Its time today over the one that is stored."""
        if self.seconds is None or not self.record.median:
            return None
        return self.seconds / self.record.median


def audit(
    records: Iterable[Record],
    *,
    run: bool = True,
    retime: bool = False,
    settings: MeasureSettings | None = None,
    report: Report | None = None,
) -> Iterator[Finding]:
    """What is found of each believed record, in groups that compete, best first.

    run       compile the best of each group and compare its result with the definition
    retime    and time it in turns with the default schedule
    settings  how to measure; their threads are those of each record
    report    told about waits, and which record is run, as that takes seconds

    Raises MeasureError where measuring itself fails. Nothing is stored.
    """
    groups = competing(records)
    for number, (first, *others) in enumerate(groups, 1):
        place = f"{number} of {len(groups)}"
        yield _run(first, retime, settings, report, place) if run or retime else standing(first)
        yield from map(standing, others)


def standing(record: Record) -> Finding:
    """What can be said of a record without running it."""
    return _replayed(record)[0]


def _replayed(record: Record) -> tuple[Finding, Schedule | None]:
    """The same, and its schedule where its steps are possible."""
    try:
        schedule = replayed(parse(record.workload.text), record)
        made = source_hash(record, schedule, Target.parse(record.target))
    except TensorIRError as error:
        return Finding(record, IMPOSSIBLE, str(error).partition("\n")[0]), None
    if made != record.source_hash:
        return Finding(record, CHANGED, "its steps make other code than was timed"), schedule
    return Finding(record, SOUND), schedule


def withdrawn(finding: Finding) -> Record:
    """The record of a failed finding as it counts from now on: it ended as it did today."""
    record = finding.record
    text = f"{finding.detail} (found by an audit of record {record.id})"
    return record.with_(status=finding.status, error=text)


def _run(
    record: Record,
    retime: bool,
    settings: MeasureSettings | None,
    report: Report | None,
    place: str,
) -> Finding:
    found, schedule = _replayed(record)
    if schedule is None:
        return found
    other = _elsewhere(record)
    if other:
        return Finding(record, found.state, found.detail or f"not run: {other}")
    if report is not None:
        report(f"{place}: running {record.workload.name}")
    func, conditions = parse(record.workload.text), record.conditions
    given = (settings or MeasureSettings()).to_json()
    chosen = MeasureSettings(**{**given, "threads": conditions.threads})
    measurer = Measurer(
        func, record.target, chosen, sizes=conditions.sizes,
        constants=record.workload.constants, report=report,
    )  # fmt: skip
    with measurer:
        result = measurer.measure([schedule], min_ms=0.0, repeats=1)[0]
        if not result.ok:
            return Finding(record, FAILED, result.error.partition("\n")[0], result.status)
        now, default = _raced(measurer, schedule, func, record) if retime else (None, None)
    return Finding(record, found.state, found.detail, "ok", now, default)


def _raced(
    measurer: Measurer, schedule: Schedule, func: PrimFunc, record: Record
) -> tuple[float, float]:
    """Seconds of the schedule and of the default one, in turns."""
    default = default_schedule(func, record.target, record.workload.constants, DEFAULT_NUMERICS)
    blocks = measurer.race([schedule, default], ROUNDS * measurer.settings.repeats).times
    return median(blocks[0]), median(blocks[1])


def _elsewhere(record: Record) -> str:
    """Why a record's time is not one of this kind of machine; "" where it is."""
    conditions = record.conditions
    try:
        here = Conditions.here(record.target, conditions.sizes, conditions.threads)
    except TensorIRError as error:
        return str(error)
    found = differences(kind_here(record.target, this_machine(), here), kind_of(record))
    told = [f"{name} is {stored}, here {asked}" for name, (asked, stored) in found.items()]
    return "; ".join(told)
