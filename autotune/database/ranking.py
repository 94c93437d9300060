"""Which record is the best: what won a race before what was only timed, whatever the numbers say.

Times of one day are not compared with those of another where that can be helped: of several races,
one says nothing any more when its winner took part in a later one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from autotune.database.record_json import canonical
from autotune.database.records import Record
from autotune.database.rows import CHECKED, RACED, believed, conditions_key
from autotune.noise.gain import Outcome


def ranking(records: Iterable[Record]) -> list[Record]:
    """The believed ones, best first, of records that compete, in the order they were stored.

    First the winners of races, then who else took part, then those that were timed alone; all by
    time, and by id where times are equal.
    """
    found = list(records)
    raced = [r for r in found if believed(r) == RACED]
    winners = {r.id for r in _standing(raced)}
    order = sorted(raced, key=lambda r: (r.id not in winners, *_by_time(r)))
    return order + sorted((r for r in found if believed(r) == CHECKED), key=_by_time)


def kind_key(record: Record) -> tuple[str, ...]:
    """What records that compete with one another have in common."""
    return (
        record.workload.key, record.target, record.machine_key,
        conditions_key(record.conditions), record.numerics,
    )  # fmt: skip


def competing(records: Iterable[Record]) -> list[list[Record]]:
    """The believed records in groups that compete, best first."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(kind_key(record), []).append(record)
    return [ranked for group in groups.values() if (ranked := ranking(group))]


def outcome(record: Record) -> Outcome | None:
    """What a race found about the schedule of a record; None for trials and of earlier versions."""
    return None if record.race is None else Outcome.from_json(record.race)


def is_undecided(record: Record) -> bool:
    """Whether the race that a record is of came to no verdict, since the machine was busy."""
    found = outcome(record)
    return found is not None and found.busy > 0


def _standing(raced: list[Record]) -> list[Record]:
    """The winners of those races that no later one has taken the place of. A race without a verdict
    takes no other one's place, not even that of an earlier one like it."""
    races: dict[str, list[Record]] = {}
    for record in raced:
        races.setdefault(record.session, []).append(record)
    winners = {name: _winners(race) for name, race in races.items()}
    if len(races) == 1:
        return [r for found in winners.values() for r in found]
    later: set[str] = set()
    standing: list[Record] = []
    decided = [name for name, race in races.items() if not any(map(is_undecided, race))]
    for name in [*reversed(decided), *(name for name in races if name not in decided)]:
        standing += [r for r in winners[name] if canonical(r.trace) not in later]
        later.update(canonical(r.trace) for r in races[name])
    return standing


def _winners(race: list[Record]) -> list[Record]:
    """Who won; the fastest in a race of an earlier version, which did not say."""
    told = [(r, found) for r in race if (found := outcome(r)) is not None]
    return [r for r, found in told if found.won] if told else [min(race, key=_by_time)]


def _by_time(record: Record) -> tuple[float, str]:
    return (math.inf if record.median is None else record.median, record.id)
