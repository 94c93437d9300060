"""The tuning database: every trial that was ever made, in one SQLite file.

Columns hold what is asked for; the record itself is one JSON text, so that a new field needs no
migration. Each `add` is committed when it returns: a killed tuner loses no finished trial. Several
processes may write at once. Looking changes nothing, and damage costs only what is damaged.

SQLite is the source of truth; JSON Lines (jsonl.py) is the exchange format.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.arguments import check_path, instance, integer
from autotune.database.conditions import Conditions
from autotune.database.jsonl import ImportReport, read_records, write_records
from autotune.database.miss import Miss, explain
from autotune.database.ranking import competing, kind_key, ranking
from autotune.database.records import STATUSES, Record, Workload
from autotune.database.rows import CHECKED, RACED, Damage, conditions_key
from autotune.database.store import Store
from autotune.errors import DatabaseError
from autotune.machine.machine import Machine
from tensorir import PrimFunc, Target, allows, check_numerics

if TYPE_CHECKING:
    from autotune.database.nearest import Near

WorkloadLike = str | Workload
"""A workload or its key."""

MachineLike = str | Machine
"""A machine or its key."""


@dataclass(frozen=True)
class SessionSummary:
    """One call of `tune`, as its records show it; races are no trials."""

    session: str
    started: str
    ended: str
    trials: int
    ok: int
    names: tuple[str, ...]
    target: str
    machine: str


class Database:
    """Records in the SQLite file `path`; ":memory:" is a database that is gone when it is closed.

    The file is made by the first record that is added; until then, and after, looking changes
    nothing, so that a file that cannot be written can be read.

    Raises DatabaseError for a place that cannot hold a database and for a file of another program.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _path(path)
        self._store = Store(self.path)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    def close(self) -> None:
        """Close the file; a closed database raises DatabaseError when it is used."""
        self._store.close()

    def add(self, record: Record) -> None:
        """Store one record; a record that is there already is left as it is."""
        self.add_many([record])

    def add_many(self, records: Iterable[Record]) -> int:
        """Store records in one transaction, all or none, and return how many were new."""
        instance("records", records, Iterable, "Records", DatabaseError)
        found = list(records)
        for record in found:
            instance("what is added", record, Record, "a Record", DatabaseError)
        return self._store.insert(found)

    def require_writable(self) -> None:
        """Make the file if there is none; raises DatabaseError where records cannot be stored."""
        self._store.require_writable()

    def best(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        numerics: str | None = None,
        conditions: Conditions | None = None,
    ) -> Record | None:
        """The fastest trial whose result was found correct, on exactly this machine and target.

        What won a race of several candidates goes before all whose times were taken one by one.

        numerics    bounds what the schedule may do to the result: "bitwise" accepts only bitwise
                    equal schedules, "reassociated" and "algebraic" more, "mixed" or None any
        conditions  sizes, threads and compiler that the time has to be of; None: those that a
                    kernel without symbolic sizes has here and now (`Conditions.here(target)`)

        `explain_miss` tells why the answer is None.
        """
        return next(self.ranked(workload, target, machine, numerics, conditions), None)

    def ranked(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        numerics: str | None = None,
        conditions: Conditions | None = None,
    ) -> Iterator[Record]:
        """The trials that `best` has the first of, best first; see `autotune.database.ranking`."""
        bound = check_numerics("mixed" if numerics is None else numerics)
        where, values = _where(
            workload=workload, target=target, machine=machine,
            conditions=_asked(target, conditions),
        )  # fmt: skip
        raced = self._store.rows(f"{where} AND believed = {RACED}", values)
        yield from ranking(r for r in raced if allows(bound, r.numerics))
        alone = self._store.rows(f"{where} AND believed = {CHECKED}", values, "median, id")
        yield from (record for record in alone if allows(bound, record.numerics))

    def records(
        self,
        workload: WorkloadLike | None = None,
        target: object | None = None,
        machine: MachineLike | None = None,
        status: str | None = None,
        limit: int | None = None,
        *,
        session: str | None = None,
        structure: str | None = None,
        conditions: Conditions | None = None,
    ) -> list[Record]:
        """The records that agree with everything given, in the order in which they were stored."""
        if limit is not None:
            limit = integer("limit", limit, 0, error=DatabaseError)
        where, values = _where(
            workload=workload, target=target, machine=machine, status=status,
            session=session, structure=structure, conditions=conditions,
        )  # fmt: skip
        return list(islice(self._store.rows(where, values), limit))

    def count_trials(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        conditions: Conditions | None = None,
    ) -> int:
        """How many trials were made of exactly this, failed ones included; see `best`."""
        found = self.records(workload, target, machine, conditions=_asked(target, conditions))
        return sum(record.is_trial for record in found)

    def explain_miss(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        conditions: Conditions | None = None,
    ) -> str:
        """Why `best` has no answer: the nearest record, and what differs; see `miss`."""
        return self.miss(workload, target, machine, conditions).text

    def miss(
        self,
        workload: WorkloadLike,
        target: object,
        machine: MachineLike,
        conditions: Conditions | None = None,
    ) -> Miss:
        """Why `best` has no answer, with everything that has to agree side by side."""
        return explain(self, workload, str(target), machine, _asked(target, conditions))

    def sessions(self) -> list[SessionSummary]:
        """A summary of each tuning session, in the order in which they began to store."""
        found: dict[str, list[Record]] = {}
        for record in self.records():
            found.setdefault(record.session, []).append(record)
        return [_summary(session, records) for session, records in found.items()]

    def stats(self) -> dict[str, Any]:
        """Numbers of records, workloads, targets, machines, sessions, and records per status."""
        found = self.records()
        return {
            "records": len(found),
            "workloads": len({r.workload.key for r in found}),
            "targets": len({r.target for r in found}),
            "machines": len({r.machine_key for r in found}),
            "sessions": len({r.session for r in found}),
            "status": dict(sorted(Counter(r.status for r in found).items())),
        }

    def prune(self, keep: int = 20) -> int:
        """Delete all but the `keep` fastest believed records of each workload, target, machine,
        conditions and numerics class, and return how many were deleted.

        Failures are deleted as well. Damaged rows are left to `repair`.
        """
        keep = integer("keep", keep, 0, error=DatabaseError)
        kept = {record.id for group in competing(self.records()) for record in group[:keep]}
        return self.delete([r.id for r in self.records() if r.id not in kept])

    def delete(self, ids: Collection[str] = (), rows: Collection[int] = ()) -> int:
        """Delete the records with these ids and the rows with these numbers; returns how many."""
        for name, given in (("ids", ids), ("rows", rows)):
            kinds = (list, tuple, set, frozenset)
            instance(name, given, kinds, f"a list of {name}", DatabaseError)
        return self._store.delete(ids, rows)

    def replace(self, old: Record, new: Record) -> None:
        """Store `new` in place of `old`; nothing happens where that is not there any more."""
        instance("what is stored", new, Record, "a Record", DatabaseError)
        self._store.replace(old.id, new)

    def check(self) -> list[str]:
        """What is damaged, one line for each thing; empty where everything is as it was stored."""
        return self._store.check()

    def repair(self) -> tuple[int, int]:
        """Make columns and indexes anew from the records, and delete rows without a record.

        Returns how many rows were mended and how many deleted. Raises DatabaseError where the file
        itself is damaged: `salvage_to` writes what it holds to another one.
        """
        return self._store.repair()

    def salvage_to(self, path: str | os.PathLike[str]) -> int:
        """Write every whole record to a new database, and return how many there are.

        Raises DatabaseError if there is such a file.
        """
        if _path(path).exists():
            raise DatabaseError(f"there is a file {str(path)!r}: name one that does not exist yet")
        with Database(path) as other:
            return other.add_many(self._store.whole())

    def export_jsonl(self, path: str | os.PathLike[str], best_only: bool = False) -> int:
        """Write records as JSON Lines and return their number; "-" is standard output.

        With `best_only`, the fastest believed record of each workload, target, machine, conditions
        and numerics class: a small file whose lines keep their order, fit for review.
        """
        _path(path)
        if not best_only:
            return write_records(path, self.records())
        best = [group[0] for group in competing(self.records())]
        return write_records(path, sorted(best, key=lambda r: (r.workload.name, *kind_key(r))))

    def import_jsonl(self, path: str | os.PathLike[str]) -> ImportReport:
        """Add the records of an export, in their order; "-" is standard input.

        Importing twice adds nothing the second time.
        """
        _path(path)
        problems: list[tuple[int, str]] = []
        records = list(read_records(path, problems))
        added = self.add_many(records) if records else 0
        return ImportReport(added, len(records) - added, tuple(problems))

    def merge(self, path: str | os.PathLike[str]) -> ImportReport:
        """Add the records of another database, or of an export, in their order.

        Merging is a union: twice, or in another order of several, gives the same records. Raises
        DatabaseError where there is no such file; its damaged rows are left out, and reported.
        """
        if str(path) == "-" or _path(path).suffix == ".jsonl":
            return self.import_jsonl(path)
        if not _path(path).is_file():
            raise DatabaseError(f"there is no tuning database {str(path)!r} to merge")
        with Database(path) as other:
            records = other.records()
            added = self.add_many(records)
            problems = [(damage.row, damage.reason) for damage in other.damage()]
            if other.note() and not problems:
                problems = [(0, other.note())]
        return ImportReport(added, len(records) - added, tuple(problems))

    def damage(self) -> list[Damage]:
        """The rows that were set aside by what was read so far."""
        return list(self._store.damage.values())

    def nearest(
        self,
        workload: Workload | PrimFunc,
        target: Target | str,
        machine: Machine,
        conditions: Conditions | None = None,
        *,
        limit: int = 8,
        each: int = 1,
        shipped: bool = False,
    ) -> list[Near]:
        """Believed records of programs of the same structure, the nearest first.

        They are of other sizes, constants, machines, compilers or numbers of threads, and programs
        of other names; what is exactly what is asked for is `best`, and not among them. With
        each come its distance and what differs; its `record` has steps and decisions.

        limit    so many at most, and `each` so many of one program, machine and conditions
        shipped  those too that ship with the project, of exactly what is asked for too
        """
        from autotune.database.nearest import is_exact, nearest  # seldom asked for

        limit = integer("limit", limit, 0, error=DatabaseError)
        each = integer("each", each, 1, error=DatabaseError)
        asked = Workload.of(workload) if isinstance(workload, PrimFunc) else workload
        instance("workload", asked, Workload, "a Workload or a PrimFunc", DatabaseError)
        instance("machine", machine, Machine, "a Machine", DatabaseError)
        told = _asked(target, conditions)
        here = asked, str(target), machine, told
        stored = self.records(structure=asked.structure, status="ok")
        records = [record for record in stored if not is_exact(record, *here)]
        like: list[Record] = []
        if shipped:
            from autotune.database.shipped import shipped_like

            like = [found.record for found in shipped_like(asked)]
        found, ships = nearest([*records, *like], *here, limit, each), {r.id for r in like}
        return [replace(near, ships=near.record.id in ships) for near in found]

    def note(self) -> str:
        """What was set aside by what was read so far, and what to do about it; "" for nothing."""
        texts, damage = [self._store.salvage], self._store.damage
        if damage:
            rows = f"{len(damage)} damaged row{'s' * (len(damage) > 1)}"
            texts.append(
                f"{rows} of {str(self.path)!r} set aside: `tensorir db check` shows them, and"
                " `tensorir db repair` removes them"
            )
        return "; ".join(filter(None, texts))


def _summary(session: str, records: list[Record]) -> SessionSummary:
    trials = [r for r in records if r.is_trial]
    first, last = records[0], records[-1]
    return SessionSummary(
        session, first.time, last.time, len(trials), sum(r.status == "ok" for r in trials),
        tuple(dict.fromkeys(r.workload.name for r in records)), first.target, first.machine_key,
    )  # fmt: skip


def _asked(target: object, conditions: Conditions | None) -> Conditions:
    return Conditions.here(str(target)) if conditions is None else conditions


def _path(path: Any) -> Path:
    check_path("path", path, "that of a file", DatabaseError)
    return Path(path)


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "workload": ((str, Workload), "a Workload or its key"),
    "machine": ((str, Machine), "a Machine or its key"),
    "target": ((str, Target), "a Target or its text"),
    "conditions": ((Conditions,), "Conditions(...)"),
}
"""What a column may be compared with; all others are texts."""


def _where(**given: Any) -> tuple[str, tuple[Any, ...]]:
    """The condition that the columns have these values; None means any value."""
    for name, value in given.items():
        if value is not None:
            kinds, words = KINDS.get(name, ((str,), "a text"))
            instance(name, value, kinds, words, DatabaseError)
    if given.get("status") not in (None, *STATUSES):
        known = ", ".join(STATUSES)
        raise DatabaseError(f"unknown status {given['status']!r}; known are {known}")
    texts = {name: _text(value) for name, value in given.items() if value is not None}
    conditions = given.get("conditions")
    parts = ["1", *(f"{name} = ?" for name in texts)]
    if conditions is not None and None in conditions.to_json().values():
        parts.append("0")  # what is not known equals nothing
    return " AND ".join(parts), tuple(texts.values())


def _text(value: Any) -> str:
    if isinstance(value, Conditions):
        return conditions_key(value)
    return value.key if isinstance(value, (Workload, Machine)) else str(value)
