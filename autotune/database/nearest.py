"""Records of programs like the one that is asked for: other sizes, constants, machines, threads.

Like it is what has the same structure, the loops, blocks and reads without their numbers. How far a
record is from it is counted in doublings: of each extent, and a fixed amount for anything else that
decides which schedule is fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autotune.database.conditions import Conditions
from autotune.database.kinds import differences, kind_here, kind_of
from autotune.database.ranking import is_undecided, ranking
from autotune.database.records import Record, Workload
from autotune.database.rows import conditions_key
from autotune.machine.machine import Machine

STEP = 1.0
"""What another compiler, another cache, other constants count as: an extent twice as large."""


@dataclass(frozen=True)
class Near:
    """A record of a program like the one that was asked for, the best of its kind.

    distance  root of the sum of squares, of each extent in doublings and STEP for what `differs`
    differs   names of what is another there: "extents", "constants", and those of `kinds`
    ships     whether it is one of the project
    """

    record: Record
    distance: float
    differs: tuple[str, ...]
    ships: bool = False

    def __str__(self) -> str:
        """ "matmul 128x16, 16x16, 128x16; another isa and caches", sizes by their numbers."""
        known = {name: str(n) for name, n in (self.record.conditions.sizes or {}).items()}
        every = [shape for _, shape, _ in self.record.workload.shapes]
        shapes = ", ".join("x".join(known.get(str(n), str(n)) for n in shape) for shape in every)
        other = " and ".join(name for name in self.differs if name != "extents")
        told = f"{'; ships' * self.ships}{f'; another {other}' if other else ''}"
        return f"{self.record.workload.name} {shapes}{told}"


def nearest(
    records: Iterable[Record],
    workload: Workload,
    target: str,
    machine: Machine,
    conditions: Conditions,
    limit: int,
    each: int,
) -> list[Near]:
    """Of these records, which are of one structure; see `Database.nearest`."""
    places: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        where = record.workload.key, record.target, record.machine_key
        places.setdefault((*where, conditions_key(record.conditions)), []).append(record)
    found = []
    for competing in places.values():
        # A race without a verdict says nothing, and its times are those of a busy machine.
        told = [record for record in competing if not is_undecided(record)] or competing
        ranked = list(_distinct(ranking(told)))[:each]
        near = [_near(record, workload, target, machine, conditions) for record in ranked]
        found += [n for n in near if n is not None]
    found.sort(key=lambda n: n.distance)  # of one place, the best first
    return found[:limit]


def _near(
    record: Record, workload: Workload, target: str, machine: Machine, conditions: Conditions
) -> Near | None:
    """None where extents cannot be compared, or the target is of another kind."""
    if record.target.split()[:1] != target.split()[:1]:
        return None
    ours, theirs = extents(workload, conditions), extents(record.workload, record.conditions)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return None
    doublings = [math.log2(max(a, 1) / max(b, 1)) for a, b in zip(ours, theirs)]
    differs = [*differences(kind_here(target, machine, conditions), kind_of(record))]
    differs = [name for name in differs if name != "sizes"]  # among the extents
    if record.workload.constants != workload.constants:
        differs.append("constants")
    squares = sum(d * d for d in doublings) + STEP**2 * len(differs)
    named = ["extents"] if any(doublings) else []
    return Near(record, math.sqrt(squares), (*named, *differs))


def extents(workload: Workload, conditions: Conditions) -> tuple[int, ...] | None:
    """All extents of the parameters, in order; None where the number of a size is not known."""
    known = conditions.sizes or {}
    sizes = [size for _, shape, _ in workload.shapes for size in shape]
    found = [known.get(size) if isinstance(size, str) else size for size in sizes]
    return None if any(n is None for n in found) else tuple(n for n in found if n is not None)


def is_exact(
    record: Record, workload: Workload, target: str, machine: Machine, conditions: Conditions
) -> bool:
    """Whether it is of exactly this program, target, machine and conditions."""
    return (
        record.workload.key == workload.key
        and record.target == target
        and record.machine_key == machine.key
        and record.conditions == conditions
    )


def _distinct(records: Iterable[Record]) -> Iterator[Record]:
    """Without later records of the same steps."""
    seen: set[str] = set()
    for record in records:
        steps = str(record.trace)
        if steps not in seen:
            seen.add(steps)
            yield record
