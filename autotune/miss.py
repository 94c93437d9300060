"""Why a query found nothing: the nearest thing there is, and the first field that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.machine import Machine, first_difference
from autotune.records import Record, Workload

if TYPE_CHECKING:
    from autotune.database import Database


def explain(db: Database, workload: str | Workload, target: str, machine: str | Machine) -> str:
    """One or two sentences; see `Database.explain_miss`."""
    key = workload if isinstance(workload, str) else workload.key
    machine_key = machine if isinstance(machine, str) else machine.key
    same_workload = db.records(key)
    if not same_workload:
        return _other_workload(db, workload)
    here = [r for r in same_workload if r.machine_key == machine_key]
    exact = [r for r in here if r.target == target]
    count = f"{len(same_workload)} records of workload {same_workload[0].workload.name!r}"
    if exact:
        return _no_believed(exact)
    if here:
        targets = ", ".join(sorted({repr(r.target) for r in here}))
        return f"{count}, on this machine only for other targets: {targets}, not {target!r}"
    nearest = next((r for r in same_workload if r.target == target), same_workload[0])
    return f"{count}, none on this machine; the nearest {_elsewhere(nearest, target, machine)}"


def _other_workload(db: Database, workload: str | Workload) -> str:
    total = db.stats()["records"]
    if not total:
        return f"the database {str(db.path)!r} is empty"
    if isinstance(workload, str):
        return f"none of the {total} records is of workload {workload!r}"
    alike = db.records(structure=workload.structure)
    if not alike:
        return f"none of the {total} records computes what {workload.name!r} computes, in any shape"
    found = alike[-1].workload
    others = [r for r in alike if _sizes(r.workload) == _sizes(workload)]
    if others:
        known = "; ".join(sorted({_names(r.workload.constants) for r in others}))
        return (
            f"{len(others)} records of this program are for other constants: {known}; "
            f"not {_names(workload.constants)}"
        )
    return (
        f"{len(alike)} records of the same computation have other shapes: {_shapes(found)}"
        f" in {found.name!r}, not {_shapes(workload)}"
    )


def _no_believed(records: list[Record]) -> str:
    unchecked = sum(r.status == "ok" for r in records)
    if unchecked == 0:
        counts = Counter(r.status for r in records)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{count} {kind}" for kind, count in ordered)
        return f"{len(records)} trials of exactly this, and none succeeded: {kinds}"
    believed = [r for r in records if r.status == "ok" and r.verdict.checked]
    if not believed:
        return f"{unchecked} trials of exactly this succeeded, but no result was checked"
    classes = ", ".join(sorted({r.numerics for r in believed}))
    return f"there are records of exactly this, with numerics {classes}: nothing else was missing"


def _elsewhere(record: Record, target: str, machine: str | Machine) -> str:
    text = f"is from machine {record.machine_key!r}"
    if isinstance(machine, Machine):
        text += f" ({first_difference(machine.to_json(), record.machine) or 'facts unknown'})"
    if record.target != target:
        text += f" and target {record.target!r}"
    return text


def _names(constants: Sequence[str]) -> str:
    return ", ".join(map(repr, constants)) or "none"


def _sizes(workload: Workload) -> list[tuple[tuple[int | str, ...], str]]:
    return [(shape, dtype) for _, shape, dtype in workload.shapes]


def _shapes(workload: Workload) -> str:
    return ", ".join(f"{name}[{', '.join(map(str, shape))}]" for name, shape, _ in workload.shapes)
