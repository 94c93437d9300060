"""tune_all: several functions at once, of which that is next from which most is to be gained.

Each function is searched as `tune` does it, a batch at a time, in one database. What is proposed
for one depends on its own trials alone, and who is next on the trials of all
(`autotune/tasks/allocation.py`), so that a run that was killed goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from autotune.arguments import (
    LARGEST_SEED,
    check_func,
    check_names,
    check_sizes,
    instance,
    integer,
    number,
)
from autotune.database.database import Database
from autotune.tasks.results import TaskResults
from autotune.tasks.turns import Turns
from autotune.tuning.budget import TRIALS
from autotune.tuning.found import shipped_result
from autotune.tuning.options import DEFAULT_DATABASE, Options, OptionsGiven, opened, with_options
from autotune.tuning.progress import Progress, make_progress
from autotune.tuning.result import TuneResult
from autotune.tuning.search import Search
from autotune.tuning.session import Session, start_session
from autotune.tuning.tuner import turn_key
from autotune.tuning.turns import search_turn
from tensorir import Numbers, PrimFunc, Target, TensorIRError

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

Each = Mapping[str, T] | Sequence[T] | None
"""One value for each function: by its name, or in the order of a list of functions."""


@with_options
def tune_all(
    funcs: Sequence[PrimFunc] | Mapping[str, PrimFunc],
    target: str | Target = "c",
    trials: int | None = None,
    seed: int = 0,
    database: str | Path | Database | None = DEFAULT_DATABASE,
    *,
    seconds: float | None = None,
    weights: Each[float] = None,
    sizes: Each[Numbers] = None,
    constants: Each[Collection[str]] = None,
    shipped: bool = True,
    **options: Unpack[OptionsGiven],
) -> TaskResults:
    """The fastest schedules that are found for several functions, by name.

        results = tune_all([conv1, conv2, dense], seconds=300, weights={"conv2": 4})
        print(results)                      # times, trials and seconds of each
        kernel = results["dense"].build()

    funcs      a list, whose functions have different names, or a mapping from names of your own
    trials     of all functions together, stored ones counted, at least one for each. None: 64 for
               each, or no limit where `seconds` are given
    seconds    after which no further batch is begun; each function gets one in any case
    weights    how often each function is called, 1 where nothing is said: what is made short is the
               weighted sum of the times
    sizes      values of symbolic sizes of each function, and `constants` names of its parameters,
               as for `tune`; so are all other arguments, which are those of all functions
    options    how to search: the fields of `autotune.tuning.options.Options`

    Weights, sizes and constants are mappings by the name of the function, or lists like `funcs`.

    A function of which nothing runs is in `failed` of the result, and the others go on. Raises
    TensorIRError for arguments that are not of their kind, for two functions that are the same
    program, and if nothing ran at all. Ctrl-C leaves all finished trials stored.
    """
    named = _named(funcs)
    seed = integer("seed", seed, 0, LARGEST_SEED)
    how = Options.of(options)
    instance("shipped", shipped, bool, "True or False")
    limit = math.inf if seconds is None else number("seconds", seconds, 0)
    most = _most(trials, len(named), seconds)
    calls = for_each("weights", weights, named, 1.0)
    shares = {n: number(f"weights[{n!r}]", w, 0, above=True) for n, w in calls.items()}
    sized, made = for_each("sizes", sizes, named, None), for_each("constants", constants, named, ())
    given = {name: check_sizes(func, sized[name]) for name, func in named.items()}
    known = {name: check_names(func, made[name]) for name, func in named.items()}
    with opened(database) as db:
        starts = {
            name: partial(start_session, func, target, db, seed, how, given[name], known[name])
            for name, func in named.items()
        }
        return _Job(starts, shares, how, most, limit).results(shipped)


class _Job:
    """The searches of one call, from sessions to results."""

    def __init__(
        self,
        starts: Mapping[str, Callable[[], Session]],
        weights: Mapping[str, float],
        how: Options,
        trials: float,
        seconds: float,
    ) -> None:
        self._starts, self._weights = starts, weights
        self._how, self._trials, self._seconds = how, trials, seconds

    def results(self, shipped: bool) -> TaskResults:
        """Search, and say what was found. What ships takes no part in it."""
        show = make_progress(self._how.progress)
        sessions = {name: start() for name, start in self._starts.items()}
        _check_different(sessions)
        found: dict[str, TuneResult] = {}
        for name, session in sessions.items():
            known = shipped_result(session, TRIALS) if shipped else None
            if known is not None:
                found[name] = known
        open_ = {name: session for name, session in sessions.items() if name not in found}
        failed: dict[str, str] = {}
        ended = "all are of records that ship"
        if open_:
            failed, ended = self._search(open_, shipped, show, found)
        if not found:
            raise TensorIRError(
                "nothing ran: " + "; ".join(f"{name}: {why}" for name, why in failed.items())
            )
        ordered = {name: found[name] for name in sessions if name in found}
        return TaskResults(ordered, self._weights, failed, ended)

    def _search(
        self,
        sessions: dict[str, Session],
        shipped: bool,
        show: Progress,
        found: dict[str, TuneResult],
    ) -> tuple[dict[str, str], str]:
        """Fill in what is found; returns why others failed, and why the search ended."""
        keys = {turn_key(session): session for session in sessions.values()}
        next(iter(sessions.values())).database.require_writable()
        with ExitStack() as stack:
            for key in sorted(keys):  # in one order everywhere, or two would wait for each other
                session, name = keys[key], keys[key].func.name
                stack.enter_context(search_turn(session.database.path, name, key, show.message))
            for name, session in sessions.items():
                if len(session.trial_records()) != session.stored:  # another tuner was searching
                    sessions[name] = self._starts[name]()
            searches = {
                name: stack.enter_context(Search(session, self._how, show.message, shipped))
                for name, session in sessions.items()
            }
            turns = Turns(searches, self._weights, show)
            ended = turns.take(self._trials, self._seconds)
            found.update(turns.finish(ended))
            return turns.failed, ended


def _named(funcs: Any) -> dict[str, PrimFunc]:
    """The functions by name; TensorIRError for none, for no functions, and for equal names."""
    instance("funcs", funcs, (list, tuple, Mapping), "a list of functions or a mapping of them")
    pairs = funcs.items() if isinstance(funcs, Mapping) else [(None, func) for func in funcs]
    found: dict[str, PrimFunc] = {}
    for name, func in pairs:
        check_func(func)
        called = func.name if name is None else name
        instance("names of functions", called, str, "texts")
        if called in found:
            raise TensorIRError(
                f"two functions are called {called!r}: give a mapping from names of your own"
            )
        found[called] = func
    if not found:
        raise TensorIRError("there are no functions to tune: funcs is empty")
    return found


def for_each(what: str, given: Any, names: Collection[str], otherwise: Any) -> dict[str, Any]:
    """A value for each function; TensorIRError for names and numbers of them that are others."""
    if given is None:
        given = {}
    instance(what, given, (list, tuple, Mapping), "a mapping by name, a list like funcs, or None")
    if not isinstance(given, Mapping):
        if len(given) != len(names):
            raise TensorIRError(f"{what} has {len(given)} entries for {len(names)} functions")
        given = dict(zip(names, given))
    for name in given:
        if name not in names:
            raise TensorIRError(f"{what} has {name!r}, but functions are {', '.join(names)}")
    return {name: given.get(name, otherwise) for name in names}


def _most(trials: Any, functions: int, seconds: Any) -> float:
    if trials is None:
        return math.inf if seconds is not None else TRIALS * functions
    return integer("trials", trials, functions)


def _check_different(sessions: Mapping[str, Session]) -> None:
    seen: dict[Any, str] = {}
    for name, session in sessions.items():
        key = repr((session.workload.key, session.conditions))
        if key in seen:
            raise TensorIRError(
                f"{seen[key]!r} and {name!r} are the same program: give it once, with the sum of"
                " their weights"
            )
        seen[key] = name
