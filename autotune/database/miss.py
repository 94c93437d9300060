"""Why a query found nothing: the nearest thing there is, and what differs, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autotune.database.conditions import Conditions
from autotune.database.records import Record, Workload
from autotune.machine.machine import KEY_FIELDS, Machine

if TYPE_CHECKING:
    from autotune.database.database import Database

UNKNOWN = "unknown"
SHORT = 60
"""Characters of a value that is told in a sentence."""


@dataclass(frozen=True)
class Field:
    """One thing that has to agree: what was asked for, and what the nearest record has."""

    name: str
    asked: str
    stored: str

    @property
    def differs(self) -> bool:
        """What a record does not know counts as different."""
        return self.asked != self.stored or self.stored == UNKNOWN


@dataclass(frozen=True)
class Miss:
    """Why there is no exact record.

    text    one or two sentences
    fields  what was asked for beside the nearest record; empty where there is none to compare
    record  the nearest record
    """

    text: str
    fields: tuple[Field, ...] = ()
    record: Record | None = None

    @property
    def differences(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.differs)


def explain(
    db: Database,
    workload: str | Workload,
    target: str,
    machine: str | Machine,
    conditions: Conditions,
) -> Miss:
    """See `Database.explain_miss`."""
    key = workload if isinstance(workload, str) else workload.key
    same = db.records(key)
    if not same:
        return _other_workload(db, workload)
    rows = {r.id: _fields(r, target, machine, conditions) for r in same}
    exact = [r for r in same if not any(field.differs for field in rows[r.id])]
    if exact:
        return Miss(_no_believed(exact))
    nearest = min(same, key=lambda r: (_distance(rows[r.id]), not r.median, r.median or 0.0))
    miss = Miss("", rows[nearest.id], nearest)
    names = [field.name for field in miss.differences]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    text = (
        f"{_count(same)} of workload {nearest.workload.name!r}, none exact: the nearest differs"
        f" in {listed}"
    )
    short = [f for f in miss.differences if max(len(f.asked), len(f.stored)) <= SHORT]
    if short:
        values = "; ".join(f"{f.name} is {f.stored} there and {f.asked} here" for f in short)
        text += f" ({values})"
    return Miss(text, miss.fields, nearest)


def _fields(
    record: Record, target: str, machine: str | Machine, conditions: Conditions
) -> tuple[Field, ...]:
    """Everything that has to agree, of most weight first."""
    theirs, asked = record.conditions.to_json(), conditions.to_json()
    return (
        *_machine_fields(record, machine),
        *_target_fields(record.target, target),
        *(Field(name, _shown(asked[name]), _shown(theirs[name])) for name in asked),
    )


def _machine_fields(record: Record, machine: str | Machine) -> tuple[Field, ...]:
    """The facts that differ, where both are known; else the key alone."""
    key = machine if isinstance(machine, str) else machine.key
    if record.machine_key == key or isinstance(machine, str) or not record.machine:
        return (Field("machine", key, record.machine_key),)
    here, there = machine.to_json(), record.machine
    facts = [
        Field(f"machine {name}", _shown(here.get(name)), _shown(there.get(name)))
        for name in KEY_FIELDS
        if here.get(name) != there.get(name)
    ]
    return tuple(facts) or (Field("machine", key, record.machine_key),)


def _target_fields(stored: str, asked: str) -> tuple[Field, ...]:
    """The kind of target and its options, one by one."""
    theirs, mine = _options(stored), _options(asked)
    names = [name for name in dict.fromkeys((*mine, *theirs)) if name != "target"]
    return (
        Field("target", mine["target"], theirs["target"]),
        *(
            Field(f"-{name}", mine.get(name, "(default)"), theirs.get(name, "(default)"))
            for name in names
        ),
    )


def _options(target: str) -> dict[str, str]:
    kind, *words = target.split() or [""]
    pairs = (word.lstrip("-").partition("=") for word in words)
    return {"target": kind, **{name: value for name, _, value in pairs}}


def _distance(fields: Sequence[Field]) -> tuple[int, ...]:
    """Differences in the machine weigh most, then those of the target, then the others."""
    differing = [field.name for field in fields if field.differs]
    machine = any(name.startswith("machine") for name in differing)
    target = any(name == "target" or name.startswith("-") for name in differing)
    return (machine, target, len(differing))


def _shown(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, dict):
        return ", ".join(f"{name}={size}" for name, size in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _other_workload(db: Database, workload: str | Workload) -> Miss:
    everything = db.records()
    if not everything:
        return Miss(f"the database {str(db.path)!r} is empty")
    of = f"none of {_count(everything)}"
    if isinstance(workload, str):
        return Miss(f"{of} is of workload {workload!r}")
    alike = [r for r in everything if r.workload.structure == workload.structure]
    if not alike:
        return Miss(f"{of} computes what {workload.name!r} computes, in any shape")
    others = [r for r in alike if _sizes(r.workload) == _sizes(workload)]
    nearest = (others or alike)[-1]
    fields = (
        Field("shapes", _shapes(workload), _shapes(nearest.workload)),
        Field("constants", _names(workload.constants), _names(nearest.workload.constants)),
    )
    if others:
        known = "; ".join(sorted({_names(r.workload.constants) for r in others}))
        text = (
            f"{_count(others)} of this program {_are(others)} for other constants: {known}; "
            f"not {_names(workload.constants)}"
        )
    else:
        text = (
            f"{_count(alike)} of the same computation {_are(alike)} for other shapes: "
            f"{_shapes(nearest.workload)} in {nearest.workload.name!r}, not {_shapes(workload)}"
        )
    return Miss(text, fields, nearest)


def _no_believed(records: list[Record]) -> str:
    unchecked = sum(r.status == "ok" for r in records)
    if unchecked == 0:
        counts = Counter(r.status for r in records)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{count} {kind}" for kind, count in ordered)
        return f"{len(records)} trials of exactly this, and none succeeded: {kinds}"
    checked = [r for r in records if r.status == "ok" and r.verdict.checked]
    if not checked:
        return f"{unchecked} trials of exactly this succeeded, but no result was checked"
    classes = ", ".join(sorted({r.numerics for r in checked}))
    return f"there are records of exactly this, with numerics {classes}: nothing else was missing"


def _count(records: Sequence[Record]) -> str:
    return "1 record" if len(records) == 1 else f"{len(records)} records"


def _are(records: Sequence[Record]) -> str:
    return "is" if len(records) == 1 else "are"


def _names(constants: Sequence[str]) -> str:
    return ", ".join(map(repr, constants)) or "none"


def _sizes(workload: Workload) -> list[tuple[tuple[int | str, ...], str]]:
    return [(shape, dtype) for _, shape, dtype in workload.shapes]


def _shapes(workload: Workload) -> str:
    return ", ".join(f"{name}[{', '.join(map(str, shape))}]" for name, shape, _ in workload.shapes)
