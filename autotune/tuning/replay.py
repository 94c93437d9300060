"""What a record's schedule is today: versions of this project change what traces and rules mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from autotune.choices import freeze
from autotune.database.records import Record
from autotune.space import Candidate, Space
from backends import source_text
from schedule import Schedule, Trace
from tensorir import PrimFunc, Target, TensorIRError, Var, parse, specialize

Replay = Callable[[Record], "Schedule | None"]
"""From a record to its schedule; None where this version cannot make it."""


def replayed(func: PrimFunc, record: Record) -> Schedule:
    """The schedule of a record; TensorIRError where its steps are not possible any more.

    `func` may call things otherwise than the program that was stored: names are no part of a
    workload.
    """
    try:
        same = str(func) == record.workload.text
        recorded_on = None if same else parse(record.workload.text)
        return Schedule(func).apply(Trace.from_json(record.trace), recorded_on)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise TensorIRError(
            f"the steps of record {record.id[:12]} are none of this version: {error}"
        ) from error


def is_current(record: Record, target: Target, replay: Replay | None = None) -> bool:
    """Whether the steps of `record` still make the code that was timed.

    They are applied to the program as it was stored: names, of the function and of buffers, are
    part of the code and not of the workload. `replay` gives the schedule, where that is known.
    """
    if not record.source_hash:
        return False
    try:
        schedule = replay(record) if replay else replayed(parse(record.workload.text), record)
        return schedule is not None and source_hash(record, schedule, target) == record.source_hash
    except TensorIRError:
        return False


def source_hash(record: Record, schedule: Schedule, target: Target) -> str:
    """The hash of the source text that a worker compiles for `schedule` now."""
    func, names = parse(str(schedule.func)), record.workload.constants
    sizes = record.conditions.sizes or {}
    told = {d.name for p in func.params if p.name in names for d in p.shape if isinstance(d, Var)}
    func = specialize(func, {name: sizes[name] for name in told if name in sizes})
    text = source_text(func, target, names)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def candidate_of(record: Record) -> Candidate | None:
    """The candidate that a record measured; None for a record without decisions."""
    decisions = freeze(record.decisions)
    if not record.sketch or not isinstance(decisions, tuple):
        return None
    candidate = Candidate(record.sketch, decisions)
    try:
        hash(candidate)
    except TypeError:  # values that no choice has
        return None
    return candidate


def known_candidate(record: Record, space: Space, known: Sequence[Candidate]) -> Candidate | None:
    """The candidate of a record, if it is one of `known` or of the space as rules make it now."""
    candidate = candidate_of(record)
    if candidate is None:
        return None
    return candidate if candidate in known or space.contains(candidate) else None


def choices_of(space: Space, candidate: Candidate) -> tuple[str, ...]:
    """The names of what the values of a candidate decide; none where the space has no such one."""
    sketch = space.sketches.get(candidate.sketch)
    names = () if sketch is None else tuple(choice.name for choice in sketch.choices)
    return names if len(names) == len(candidate.values) else ()
