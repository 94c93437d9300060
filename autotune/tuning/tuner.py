"""tune: search for the fastest schedule of a function, and remember it.

The search is a pure function of the seed and of what was measured: batches are proposed from the
records (`autotune/tuning/batches.py`), every finished trial is stored at once, and a run that was
killed goes on where it was, in the middle of a batch too. Of several tuners that want the same, one
searches at a time (`autotune/tuning/turns.py`).

Times are blocks measured inside of compiled code. At the end the best candidates race with the
default schedule (`autotune/tuning/race.py`), which is lost only to one that is certainly faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import NoneType

from autotune.arguments import (
    LARGEST_SEED,
    check_func,
    check_names,
    check_path,
    check_sizes,
    instance,
    integer,
)
from autotune.database.database import Database
from autotune.database.records import Record
from autotune.knobs.space import ScheduleFunction
from autotune.measure import Measurer, MeasureResult, MeasureSettings
from autotune.search import Propose, search_named
from autotune.space import Candidate
from autotune.tuning.batches import Batch, next_batch
from autotune.tuning.budget import TRIALS, Budget
from autotune.tuning.failures import describe_failures
from autotune.tuning.progress import Progress, Task, make_progress
from autotune.tuning.result import TuneResult
from autotune.tuning.session import Session, start_session
from autotune.tuning.shipped import shipped_answer
from autotune.tuning.turns import search_turn
from tensorir import DEFAULT_NUMERICS, Costs, Numbers, PrimFunc, Target, TensorIRError

DEFAULT_DATABASE = "tuning_logs/tuning.db"


def tune(
    func: PrimFunc,
    target: str | Target = "c",
    trials: int | None = None,
    seed: int = 0,
    database: str | Path | Database | None = DEFAULT_DATABASE,
    *,
    numerics: str = DEFAULT_NUMERICS,
    strategy: str = "evolutionary",
    cost_model: str = "auto",
    settings: MeasureSettings | None = None,
    sizes: Numbers | None = None,
    constants: Collection[str] = (),
    progress: bool | None = None,
    seconds: float | None = None,
    until: str | None = None,
    costs: Costs | str | None = None,
    shipped: bool = True,
    space: ScheduleFunction | None = None,
) -> TuneResult:
    """The fastest schedule of `func` that is found, from the database where it can be.

    target      what to compile for
    trials      distinct programs to have compiled and run, stored ones counted: if there are that
                many, nothing is measured. None: 64, or no limit with `seconds` or `until`
    seed        of the search and of the inputs; equal seeds and equal times give equal searches
    database    path or Database where each trial is stored when it is finished; None: in memory
    numerics    what schedules may do to floating-point results: "bitwise" keeps the order of sums,
                "reassociated" does not, "algebraic" also tries other algorithms (Winograd's),
                "mixed" instructions of less precision; errors are bounded alike for all
    strategy    the name of one of `autotune.search.STRATEGIES`; cost_model "auto", "xgboost",
                "sklearn" or "random"
    settings    how to measure
    sizes       values of symbolic sizes, and of numbers among the arguments, to measure with;
                numbers that are no sizes are drawn as inputs are where they are not given
    constants   names of parameters whose arrays `result.build(constants=...)` will be given, such
                as weights: what is computed from them alone at the root is checked and not timed
    progress    show it; None shows it on a terminal
    seconds     after which no further batch is begun
    until       what is enough: "converged", where no gain is expected any more, or a share of what
                bounds `func` here, such as "95% of roofline". The search ends at whichever comes
                first of trials, seconds and this: see `result.ended`
    costs       what steps of the processor are estimated to cost, as for `default_schedule`
    shipped     where the database has no trials, take a record that ships with the project, of
                this kind of machine and so many trials; `result.source` says where it is from
    space       a function `schedule(sch, knobs)` whose schedules are searched, and not those of the
                rules (`autotune.knobs.knobs`); the default has the defaults of all knobs

    Raises TensorIRError for arguments that are not of their kind, and if no candidate ran
    correctly. Ctrl-C leaves all finished trials stored.
    """
    check_func(func)
    seed = integer("seed", seed, 0, LARGEST_SEED)
    sizes, constants = check_sizes(func, sizes), check_names(func, constants)
    _check_options(settings=settings, progress=progress, shipped=shipped, cost_model=cost_model)
    budget, propose = Budget.of(trials, seconds, until), search_named(strategy)
    with _opened(database) as db:
        given = (func, target, db, seed, numerics, cost_model, settings, sizes, constants, costs)
        start = partial(start_session, *given, function=space)
        return _searched(start, propose, budget, progress, shipped and space is None)


OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "settings": ((MeasureSettings, NoneType), "MeasureSettings(...) or None"),
    "progress": ((bool, NoneType), "True, False or None"),
    "shipped": ((bool,), "True or False"),
    "cost_model": ((str,), "the name of one"),
}
"""What options of `tune` may be, and the same in words."""


def _check_options(**given: object) -> None:
    for name, value in given.items():
        instance(name, value, *OPTIONS[name])


@contextmanager
def _opened(database: str | Path | Database | None) -> Iterator[Database]:
    """The database; one that was given as such stays open."""
    if isinstance(database, Database):
        yield database
        return
    if database is not None:
        check_path("database", database, "a Database, the path of one, or None")
    with Database(":memory:" if database is None else database) as opened:
        yield opened


def _searched(
    start: Callable[[], Session],
    propose: Propose,
    budget: Budget,
    progress: bool | None,
    shipped: bool,
) -> TuneResult:
    """The result of the search that `start` makes a session for, when it is its turn."""
    session = start()
    ended = budget.reached(session)
    stored = session.answer() if ended else None
    if stored is not None:
        return _result(session, stored, measured=0, seconds=0.0, ended=ended)
    known = shipped_answer(session, budget.trials or TRIALS) if shipped else None
    if known is not None:
        found = _result(session, known.record, measured=0, seconds=0.0)
        return replace(found, trials=known.trials, source=str(known))
    session.database.require_writable()
    show = make_progress(progress)
    with search_turn(session.database.path, session.func.name, _turn_key(session), show.message):
        if len(session.trial_records()) != session.stored:  # another tuner was searching
            session = start()
        begun, before = time.perf_counter(), session.trials
        ended = budget.reached(session)
        if not ended or session.answer() is None:
            ended = _search(session, propose, budget, show)
        best = session.stored_best()
        if best is None:
            raise _nothing_ran(session)
        seconds = time.perf_counter() - begun
        return _result(session, best, session.trials - before, seconds, ended)


def _turn_key(session: Session) -> tuple[str, ...]:
    return session.workload.key, str(session.target), session.machine.key


def _nothing_ran(session: Session) -> TensorIRError:
    reasons = describe_failures(session.counted()) or "; ".join(session.state.refusals)
    return TensorIRError(
        f"no candidate of {session.func.name!r} ran correctly in {session.trials} trials: {reasons}"
    )


def _search(
    session: Session,
    propose: Propose,
    budget: Budget,
    show: Progress,
) -> str:
    """Measure until the budget is spent or nothing new is left, then race the best; why it ended.

    Where seconds are limited, one batch is measured at least.
    """
    from autotune.search.trust import trust
    from autotune.tuning.transfer import hints

    session.state.hints = hints(session)
    deadline = time.perf_counter() + budget.seconds
    measurer = Measurer(
        session.func,
        str(session.target),
        session.settings,
        sizes=session.sizes,
        constants=session.workload.constants,
        report=show.message,
    )
    best = session.stored_best()
    # For one alone the workers would not be started, and they do not have functions of users.
    if budget.left(session) > 1 and not session.function:
        session.state.ahead = lambda some: measurer.features(
            some, session.numerics, session.rules, session.costs
        )
    shown = session.func.name, session.trials, budget.trials, session.work
    with measurer, show.task(*shown) as task:
        task.best(None if best is None else best.median)
        if best is None:
            from autotune.tuning.expect import expected

            session.expectation = expected(session)
            task.expect(session.expectation)
        while not (ended := budget.reached(session)):
            batch = next_batch(session, propose)
            if not batch.proposed:
                ended = "nothing is left to try"
                break
            task.model(str(trust(session.space, session.state)))
            left = list(batch.missing)
            while left and (most := budget.left(session)) > 0:  # some may repeat what is known
                count = int(min(most, len(left)))
                _measure(session, measurer, batch, left[:count], task)
                left = left[count:]
            if batch.missing and time.perf_counter() >= deadline:
                ended = budget.reached(session) or f"{budget.seconds:g} s"
                break
        if not session.is_settled():
            from autotune.tuning.race import final_race

            task.phase("racing the best")
            final_race(session, measurer)
    session.state.ahead = None
    session.others = measurer.neighbours.share()
    return ended


def _measure(
    session: Session, measurer: Measurer, batch: Batch, some: Sequence[Candidate], task: Task
) -> None:
    """Measure some of a batch; each trial is stored when it is finished."""
    designs = [session.design(candidate) for candidate in some]
    predicted = [session.state.predicted(candidate) for candidate in some]

    def store(index: int, result: MeasureResult) -> None:
        record = session.record(
            some[index], designs[index], result.unless_in(session.sources),
            predicted[index], batch=batch.number,
        )  # fmt: skip
        session.database.add(record)
        session.remember(record)
        if record.is_trial:
            task.advance(record)

    best, known = session.state.best_seconds(), frozenset(session.sources)
    measurer.measure(designs, incumbent=best, known=known, on_result=store)


def _result(
    session: Session, best: Record, measured: int, seconds: float, ended: str = ""
) -> TuneResult:
    from autotune.tuning.repeats import noise_ceiling

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
        ended=ended,
    )
