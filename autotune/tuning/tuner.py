"""tune: search for the fastest schedule of a function, and remember it.

The search is a pure function of the seed and of what was measured: batches are proposed from the
records (`autotune/tuning/batches.py`), every finished trial is stored at once, and a run that was
killed goes on where it was, in the middle of a batch too. Of several tuners that want the same, one
searches at a time (`autotune/tuning/turns.py`).

Times are blocks measured inside of compiled code. At the end the best candidates race with the
default schedule (`autotune/tuning/race.py`), which is lost only to one that is certainly faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.arguments import LARGEST_SEED, check_func, check_names, check_sizes, instance, integer
from autotune.collecting import collected_seldom
from autotune.database.database import Database
from autotune.knobs.space import ScheduleFunction
from autotune.tuning.budget import TRIALS, Budget
from autotune.tuning.found import nothing_ran, result_of, shipped_result
from autotune.tuning.options import DEFAULT_DATABASE, Options, OptionsGiven, opened, with_options
from autotune.tuning.progress import Progress, make_progress
from autotune.tuning.result import TuneResult
from autotune.tuning.search import Search
from autotune.tuning.session import Session, start_session
from autotune.tuning.turns import search_turn
from tensorir import Numbers, PrimFunc, Target

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options
def tune(
    func: PrimFunc,
    target: str | Target = "c",
    trials: int | None = None,
    seed: int = 0,
    database: str | Path | Database | None = DEFAULT_DATABASE,
    *,
    sizes: Numbers | None = None,
    constants: Collection[str] = (),
    seconds: float | None = None,
    until: str | None = None,
    shipped: bool = True,
    space: ScheduleFunction | None = None,
    **options: Unpack[OptionsGiven],
) -> TuneResult:
    """The fastest schedule of `func` for `target` that is found, from the database where it can be.

    trials      distinct programs to have compiled and run, stored ones counted: if there are that
                many, nothing is measured. None: 64, or no limit with `seconds` or `until`
    seed        of the search and of the inputs; equal seeds and equal times give equal searches
    database    path or Database where each trial is stored when it is finished; None: in memory
    sizes       values of symbolic sizes, and of numbers among the arguments, to measure with;
                numbers that are no sizes are drawn as inputs are where they are not given
    constants   names of parameters whose arrays `result.build(constants=...)` will be given, such
                as weights: what is made of them alone at the root is checked and not timed
    seconds     after which no further batch is begun
    until       what is enough: "converged", or a share of what bounds `func` here, such as "95% of
                roofline". `result.ended` says what came first of trials, seconds and this
    shipped     where the database has no trials, take a record of this kind of machine and so many
                trials that ships with the project, as `result.source` says; others begin a search
    space       a function `schedule(sch, knobs)` whose schedules are searched, not those of rules
                (`autotune.knobs.knobs`); the default has the defaults of all knobs
    options     how to search: the fields of `autotune.tuning.options.Options`

    Raises TensorIRError for arguments that are not of their kind, and if no candidate ran
    correctly. Ctrl-C leaves all finished trials stored.
    """
    check_func(func)
    seed, sizes = integer("seed", seed, 0, LARGEST_SEED), check_sizes(func, sizes)
    constants, how = check_names(func, constants), Options.of(options)
    instance("shipped", shipped, bool, "True or False")
    budget = Budget.of(trials, seconds, until)
    with opened(database) as db:
        start = partial(start_session, func, target, db, seed, how, sizes, constants, space)
        return _searched(start, how, budget, shipped and space is None)


def _searched(
    start: Callable[[], Session], how: Options, budget: Budget, shipped: bool
) -> TuneResult:
    """The result of the search that `start` makes a session for, when it is its turn."""
    session = start()
    ended = budget.reached(session)
    stored = session.answer() if ended else None
    if stored is not None:
        return result_of(session, stored, measured=0, seconds=0.0, ended=ended)
    known = shipped_result(session, budget.trials or TRIALS) if shipped else None
    if known is not None:
        return known
    session.database.require_writable()
    show = make_progress(how.progress)
    with search_turn(session.database.path, session.func.name, turn_key(session), show.message):
        if len(session.trial_records()) != session.stored:  # another tuner was searching
            session = start()
        begun, before = time.perf_counter(), session.trials
        ended = budget.reached(session)
        if not ended or session.answer() is None:
            ended = _search(session, how, budget, shipped, show)
        best = session.stored_best()
        if best is None:
            raise nothing_ran(session)
        seconds = time.perf_counter() - begun
        return result_of(session, best, session.trials - before, seconds, ended)


def turn_key(session: Session) -> tuple[str, ...]:
    """What only one tuner at a time searches in a database."""
    return session.workload.key, str(session.target), session.machine.key


def _search(session: Session, how: Options, budget: Budget, shipped: bool, show: Progress) -> str:
    """Measure until the budget is spent or nothing new is left, then race the best; why it ended.

    Where seconds are limited, one batch is measured at least.
    """
    deadline = time.perf_counter() + budget.seconds
    goal = math.inf if budget.trials is None else budget.trials
    told = session.func.name, session.trials, budget.trials, session.work
    search = Search(session, how, show.message, shipped)
    with collected_seldom(), search, show.task(*told) as task:
        search.begin(task, several=budget.left(session) > 1)
        while not (ended := budget.reached(session)):
            batch = search.step(task, goal)
            if not batch.proposed:
                ended = "nothing is left to try"
                break
            if batch.missing and time.perf_counter() >= deadline:
                ended = budget.reached(session) or f"{budget.seconds:g} s"
                break
        search.finish(task)
    return ended
