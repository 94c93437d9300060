"""tune_family: one kernel for many sizes, of few schedules that they share.

Each size is searched as `tune_all` does it. The best schedules of each, which are of the symbolic
program and so right for all, are then raced at every other size; what that tells is stored as
trials and races are, and a later call finds it there. Few of them that serve all sizes well are
kept (`sharing.py`), and borders between the sizes say who has which (`regions.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.arguments import (
    LARGEST_SEED,
    check_func,
    check_sizes,
    instance,
    integer,
    number,
)
from autotune.database.database import Database
from autotune.database.ranking import outcome
from autotune.database.records import Record
from autotune.tasks.family_result import FamilyResult, Member, named
from autotune.tasks.regions import regions
from autotune.tasks.sharing import served, shared
from autotune.tasks.tune_all import Each, for_each, tune_all
from autotune.tuning.expect import work_of
from autotune.tuning.options import DEFAULT_DATABASE, Options, OptionsGiven, opened, with_options
from autotune.tuning.progress import make_progress
from autotune.tuning.replay import candidate_of
from autotune.tuning.search import Search
from autotune.tuning.session import Session, start_session
from autotune.tuning.tuner import turn_key
from autotune.tuning.turns import search_turn
from tensorir import Number, Numbers, PrimFunc, Target, TensorIRError

if TYPE_CHECKING:
    from typing_extensions import Unpack

KERNELS = 3
"""Schedules beside the default where nothing else is said."""


@with_options
def tune_family(
    func: PrimFunc,
    sizes: Mapping[str, int | Sequence[int]],
    target: str | Target = "c",
    trials: int | None = None,
    seed: int = 0,
    database: str | Path | Database | None = DEFAULT_DATABASE,
    *,
    seconds: float | None = None,
    weights: Each[float] = None,
    kernels: int = KERNELS,
    **options: Unpack[OptionsGiven],
) -> FamilyResult:
    """One kernel for many sizes, of few schedules, each for the sizes that it is best for.

        family = tune_family(func, {"n": [16, 100, 1024]}, trials=96)
        print(family)                       # who has which schedule, and the regret
        kernel = family.build()             # takes any n

    sizes      values of the symbolic sizes: lists of one length, of which the first values make the
               first of the measured sizes, and so on; a number stands for all
    trials     of all sizes together, as for `tune_all`; beside them, each size's best schedule is
               tried at the others. What is stored is not measured again
    seconds    after which no further batch is begun
    weights    how often each of the sizes is called, in their order: what is made short is the
               weighted sum of the times. None: each counts the same, whatever its time
    kernels    schedules beside the default, at most; one more is taken where it makes the whole at
               least 1 % faster
    options    how to search: the fields of `autotune.tuning.options.Options`

    Other arguments are those of `tune`. The kernel takes every size. One that was not measured has
    the schedule of its region, which borders between the measured ones make, at their geometric
    means; the default, which needs no tuning, runs where it is the best, and beyond twice the
    largest and half the smallest measured size. All are schedules of the symbolic program: none is
    ever wrong for a size, at worst slow. The choice is made in the compiled text.

    Raises TensorIRError for arguments that are not of their kind, for targets that are no
    processors, and where nothing ran for one of the sizes. Ctrl-C leaves all finished trials
    stored.
    """
    check_func(func)
    seed = integer("seed", seed, 0, LARGEST_SEED)
    members = {named(each): each for each in _members(func, sizes)}
    most, shares = integer("kernels", kernels, 1), _weights(func, members, weights)
    _check_target(target)
    budget = {"trials": trials, "seconds": seconds, "weights": shares}
    with opened(database) as db:
        begun, before = time.perf_counter(), sum(record.is_trial for record in db.records())
        sessions = _searched(func, members, target, seed, db, options, budget)
        found = _Found(sessions, None if weights is None else list(shares.values()))
        measured = sum(record.is_trial for record in db.records()) - before
        return found.result(func, most, measured, time.perf_counter() - begun)


def _searched(
    func: PrimFunc,
    members: Mapping[str, Numbers],
    target: str | Target,
    seed: int,
    db: Database,
    options: OptionsGiven,
    budget: Mapping[str, Any],
) -> list[Session]:
    """The sessions of all sizes after their searches and the comparison of what these found."""
    how = Options.of(options)
    funcs = dict.fromkeys(members, func)
    results = tune_all(
        funcs, target, seed=seed, database=db, sizes=members, shipped=False, **options, **budget
    )
    for name, why in results.failed.items():
        raise TensorIRError(f"there is no schedule for {name}: {why}")
    starts = [partial(start_session, func, target, db, seed, how, n) for n in members.values()]
    return _raced(starts, how)


def _check_target(target: str | Target) -> None:
    if Target.parse(target).on_gpu:
        raise TensorIRError(
            f"families are for processors, not for {str(target)!r}: their kernel chooses in its own"
            " compiled text; use tune_all, and build a kernel for each size"
        )


def _members(func: PrimFunc, sizes: Any) -> list[dict[str, Number]]:
    """The sizes one by one; TensorIRError for what is none, or stands there twice."""
    instance("sizes", sizes, Mapping, 'a mapping such as {"n": [16, 100, 1024]}')
    names = [v.name for v in func.size_vars]
    if not names:
        raise TensorIRError(f"{func.name!r} has no symbolic size: use tune")
    lists = {n: values for n, values in sizes.items() if isinstance(values, (list, tuple, range))}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        told = ", ".join(f"{name!r} has {n}" for name, n in lengths.items()) or "there is no list"
        raise TensorIRError(f"sizes needs lists of values, all of one length: {told}")
    found: dict[tuple[int, ...], dict[str, Number]] = {}
    for at in range(max(lengths.values())):
        each = check_sizes(func, {n: lists[n][at] if n in lists else sizes[n] for n in sizes})
        missing = [name for name in names if name not in each]
        if missing:
            raise TensorIRError(f"sizes has no values for the symbolic size {missing[0]!r}")
        key = tuple(int(each[name]) for name in names)
        if key in found:
            raise TensorIRError(f"sizes has {named(dict(zip(names, key)))} twice")
        found[key] = each
    return list(found.values())


def _weights(func: PrimFunc, members: Mapping[str, Numbers], calls: Any) -> dict[str, float]:
    """How much the time of each size counts in the search: as often as it is called, or else as
    the inverse of what there is to do, about which its time is."""
    if calls is None:
        return {name: 1 / (work_of(func, each) or 1) for name, each in members.items()}
    given = for_each("weights", calls, members, 1.0)
    return {n: number(f"weights[{n!r}]", w, 0, above=True) for n, w in given.items()}


def _raced(starts: Sequence[Callable[[], Session]], how: Options) -> list[Session]:
    """The sessions of all sizes after the best schedules of each were raced at the others."""
    show = make_progress(how.progress)
    sessions = [start() for start in starts]
    first = sessions[0]
    with search_turn(first.database.path, first.func.name, turn_key(first), show.message):
        if any(len(each.trial_records()) != each.stored for each in sessions):
            sessions = [start() for start in starts]  # another tuner was searching
        best = [record for each in sessions if (record := each.stored_best()) is not None]
        for session in sessions:
            if all(_is_known(session, record.code) for record in best):
                continue
            shown = f"{named(session.conditions.sizes or {})} (schedules of other sizes)"
            with Search(session, how, show.message, shipped=False) as search:
                with show.task(shown, session.trials, None, session.work) as task:
                    search.compare(best, task)
    return sessions


def _is_known(session: Session, code: str) -> bool:
    """Whether a schedule took part in the last race, or did not come that far."""
    if any(record.code == code for record in session.last_race()):
        return True
    tried = [r for r in session.trial_records() if r.code == code and r.is_trial]
    return bool(tried) and tried[-1].status != "ok"


class _Found:
    """What the races of all sizes tell.

    times  seconds of each schedule at each size, float64 [sizes, schedules]; inf where it did not
           take part. The default has number 0.
    """

    def __init__(self, sessions: Sequence[Session], weights: Sequence[float] | None) -> None:
        self._sessions = sessions
        self._records = _schedules(sessions)
        self.times = np.array([self._row(session.last_race()) for session in sessions])
        least = self.times.min(axis=1)
        self._counts = 1 / least if weights is None else np.array(weights)

    def result(self, func: PrimFunc, kernels: int, measured: int, seconds: float) -> FamilyResult:
        """The schedules that serve all sizes, at most so many beside the default."""
        first = self._sessions[0]
        places = served(self.times, shared(self.times * self._counts[:, None], kernels))
        used = list(dict.fromkeys([0, *places]))
        numbers = [used.index(place) for place in places]
        records = list(self._records.values())
        sizes = [dict(session.conditions.sizes or {}) for session in self._sessions]
        members = [
            Member(each, number, *map(float, (row[place], row.min(), row[0])))
            for each, number, place, row in zip(sizes, numbers, places, self.times)
        ]
        return FamilyResult(
            func=func,
            target=first.target,
            members=tuple(members),
            records=tuple(records[place] for place in used),
            origins=tuple(self._origin(place) for place in used),
            regions=tuple(r for r in regions(list(zip(sizes, numbers))) if r.schedule),
            measured=measured,
            seconds=seconds,
            notice="; ".join(dict.fromkeys(filter(None, (s.told() for s in self._sessions)))),
        )

    def _row(self, race: Sequence[Record]) -> list[float]:
        """The seconds of each schedule by its gain on the default, in which the race is exact. One
        that is not certainly faster counts as no faster."""
        told = {record.code: record for record in race}
        default = told[next(iter(self._records))].median or 0.0
        return [default * _ratio(told.get(code)) for code in self._records]

    def _origin(self, place: int) -> str:
        """For which of the sizes a schedule is best, beside the best there."""
        if place == 0:
            return ""
        at = int(np.argmin(self.times[:, place] / self.times.min(axis=1)))
        return named(self._sessions[at].conditions.sizes or {})


def _schedules(sessions: Sequence[Session]) -> dict[str, Record]:
    """A record of each schedule that was raced by its code, the default first, without those that
    failed at one of the sizes: they are not trusted at others."""
    failed = {r.code for each in sessions for r in each.trial_records() if r.has_failed}
    found: dict[str, Record] = {}
    for session in sessions:
        raced = {record.code: record for record in session.last_race()}
        default = next((r for r in raced.values() if candidate_of(r) == session.default), None)
        if default is None:
            raise TensorIRError(
                f"the default schedule of {session.func.name!r} does not run for"
                f" {named(session.conditions.sizes or {})}, and it has to serve all other sizes:"
                " leave this size out, or tune it alone"
            )
        found = {default.code: default, **found, **raced}
    return {code: record for code, record in found.items() if code not in failed}


def _ratio(record: Record | None) -> float:
    """The time of a schedule over that of the default; inf where it was not raced."""
    told = None if record is None else outcome(record)
    if told is None:
        return float("inf")
    if told.busy or told.default:
        return 1.0
    ratio = 1 / (1 + told.gain.estimate)
    return ratio if told.gain.is_certain else max(ratio, 1.0)
