"""The space of a schedule function, found by running it.

Every combination of values of `choice` and `flag` is run once, as they are met. Those that lead to
the same knobs are one sketch, so that candidates of a sketch have equal choices, are varied and
crossed as others are; sketches compete for trials.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.choices import Categorical, Choice
from autotune.errors import line_in
from autotune.knobs.identity import identity_of
from autotune.knobs.knobs import Knobs, Strayed, shown
from autotune.space import Candidate, Decisions, Sketch, Space
from schedule import Refusal, Schedule, ScheduleError
from tensorir import PrimFunc, TensorIRError

ScheduleFunction = Callable[[Schedule, Knobs], "Schedule | None"]
"""Schedules what it is given, in place, with values that it asks of the knobs."""

MOST_BRANCHES = 256
"""Combinations of choices and flags that are run."""

TRIES = 8
"""Runs of a branch with other tiles, where the first ones are refused."""

CHECKS = 2
"""Runs of a branch with other tiles that have to ask for the same knobs."""

REMEDY = (
    "which knobs are asked for, and with which values, may depend on choices and flags alone: make"
    " what decides a choice, or one tile of several parts"
)


class KnobError(Refusal):
    """A schedule function failed; the text has the values of its knobs. A search goes on without
    these values, and counts the `reason`, which is without them.
    """

    def __init__(
        self, function: ScheduleFunction, values: Mapping[str, Any], error: Exception
    ) -> None:
        ours = isinstance(error, TensorIRError)
        kind = "" if ours else f"{type(error).__name__}: "
        first = getattr(error, "headline", None) or str(error)
        super().__init__(f"{kind}{first}".partition("\n")[0])
        name = f"schedule function {_name(function)!r}"
        self._text = f"{_place(function, error)}{name} failed with {shown(values)}: {kind}{error}"

    def __str__(self) -> str:
        return self._text


def _name(function: ScheduleFunction) -> str:
    return str(getattr(function, "__name__", "schedule"))


def _place(function: ScheduleFunction, error: Exception) -> str:
    """The line of the function's file that failed, as "line 7 of kernels.py: "."""
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    line = line_in(file, error)
    return line and f"{line} of {Path(file).name}: "


@dataclass(frozen=True)
class Run:
    """What a run of the function asked for; `error` is how it ended, None for well."""

    knobs: Knobs
    error: Exception | None = None

    @property
    def deciding(self) -> dict[str, Any]:
        """The values of choices and flags, in order."""
        asked = self.knobs.asked
        return {n: v for n, v in self.knobs.used.items() if isinstance(asked[n], Categorical)}


@dataclass(frozen=True, eq=False)
class Branch(Sketch):
    """The schedules for which a function asks for the same knobs.

    ways     the values of choices and flags that lead here
    default  the values of the first of these, in the order of `choices`
    """

    ways: tuple[Mapping[str, Any], ...] = ()
    default: tuple[Any, ...] = ()

    def draw(self, rng: random.Random) -> tuple[Any, ...]:
        way = rng.choice(self.ways)
        return tuple([way[c.name] if c.name in way else c.sample(rng) for c in self.choices])


class OwnSpace(Space):
    """The space of a schedule function of a user.

    function  its name and the hash of its source
    refusals  why branches have no schedule, in words
    """

    def __init__(self, function: str, branches: list[Branch], refusals: list[str]) -> None:
        super().__init__(branches)
        self.function, self.refusals = function, tuple(refusals)
        self._branches = branches

    @property
    def defaults(self) -> list[Candidate]:
        """Of each sketch the candidate with the defaults of the knobs, the first branch's first."""
        return [Candidate(branch.name, branch.default) for branch in self._branches]


def own_space(func: PrimFunc, function: ScheduleFunction) -> OwnSpace:
    """The space of all schedules of `func` that `function` makes.

        print(own_space(func, schedule).describe())

    A branch whose schedules are refused is left out; `refusals` of the space says why. Raises
    TensorIRError for what is no function, for errors that are none of schedules, for too many
    branches, for knobs that depend on tiles, and if no branch can be scheduled.
    """
    if not callable(function):
        raise TensorIRError(
            f"space is {function!r}; it is a function that schedules: def schedule(sch, knobs)"
        )
    return _Explorer(func, function).space()


class _Explorer:
    """Runs the function once for each combination of choices and flags."""

    def __init__(self, func: PrimFunc, function: ScheduleFunction) -> None:
        self._function = function
        self._name = _name(function)
        self._identity = f"{self._name}@{identity_of(function)}"
        self._start = Schedule(func)
        self._start.remember_steps()
        self._found: dict[frozenset[Choice], list[Run]] = {}
        self._refusals: list[str] = []

    def space(self) -> OwnSpace:
        for run in self._runs():
            if run.error is not None:
                self._refusals.append(str(KnobError(self._function, run.knobs.used, run.error)))
                continue
            self._found.setdefault(frozenset(run.knobs.asked.values()), []).append(run)
        if not self._found:
            raise TensorIRError(self._refusals[0])
        branches = [self._branch(at, runs) for at, runs in enumerate(self._found.values())]
        return OwnSpace(self._identity, branches, self._refusals)

    def _runs(self) -> list[Run]:
        """A run of each combination, the one of all defaults first."""
        waiting: list[dict[str, Any]] = [{}]
        found = []
        while waiting:
            forced = waiting.pop()
            run = self._sound(forced)
            found.append(run)
            decided = run.deciding
            for at, name in reversed(list(enumerate(decided))):
                if name in forced:
                    continue
                choice, before = run.knobs.asked[name], dict(list(decided.items())[:at])
                others = choice.neighbors(decided[name])
                waiting += [{**before, name: other} for other in reversed(others)]
            if len(found) + len(waiting) > MOST_BRANCHES:
                raise TensorIRError(
                    f"the choices and flags of {self._name!r} have more than {MOST_BRANCHES}"
                    f" combinations ({', '.join(decided)} among them), which are tried one by one;"
                    " make numbers that decide nothing else factors or tiles"
                )
        return found

    def _sound(self, forced: Mapping[str, Any]) -> Run:
        """A run with these values that is not refused, if there is one, compared with others."""
        rng = random.Random(repr(sorted(forced.items())))
        first = run = self._run(forced)
        for _ in range(TRIES):
            if run.error is None:
                break
            run = self._run({**forced, **_others(run, rng)})
        if run.error is not None:
            return first
        for tiles in [_others(run, rng) for _ in range(CHECKS)] if _others(run, rng) else ():
            other = self._run({**run.deciding, **tiles})
            if other.error is None and other.knobs.asked != run.knobs.asked:
                raise TensorIRError(
                    f"{self._name!r} asks for other knobs with {shown(other.knobs.used)} than with"
                    f" {shown(run.knobs.used)}: {REMEDY}"
                )
        return run

    def _run(self, given: Mapping[str, Any]) -> Run:
        knobs = Knobs(given)
        try:
            _scheduled(self._function, self._start, knobs)
        except ScheduleError as error:
            return Run(knobs, error)
        except Strayed as error:
            raise TensorIRError(f"{self._name!r}: {error}: {REMEDY}") from error
        except Exception as error:
            raise KnobError(self._function, knobs.used, error) from error
        return Run(knobs)

    def _branch(self, at: int, runs: list[Run]) -> Branch:
        first = runs[0].knobs
        ways = tuple(run.deciding for run in runs)
        choices = tuple(_as_decided(choice, ways) for choice in first.asked.values())
        wanted = list(ways[0])
        keys = {tuple(way[name] for name in wanted) for way in ways}

        def build(decisions: Decisions) -> Schedule:
            knobs = Knobs(decisions)
            try:
                made = _scheduled(self._function, self._start, knobs)
                if knobs.asked != first.asked:
                    raise Strayed(f"the function asks for other knobs now; {REMEDY}")
            except Exception as error:
                raise KnobError(self._function, decisions, error) from error
            return made

        def feasible(decisions: Decisions) -> bool:
            return tuple(decisions[name] for name in wanted) in keys

        name = self._identity if at == 0 else f"{self._identity}#{at + 1}"
        default = tuple(first.used[name] for name in first.asked)
        return Branch(name, choices, build, feasible, ways, default)


def _as_decided(choice: Choice, ways: Sequence[Mapping[str, Any]]) -> Choice:
    """The choice with the values that it has in these ways."""
    if not isinstance(choice, Categorical):
        return choice
    options = {way[choice.name]: None for way in ways}
    return Categorical(choice.name, tuple(o for o in choice.options if o in options))


def _scheduled(function: ScheduleFunction, start: Schedule, knobs: Knobs) -> Schedule:
    schedule = start.copy()
    made = function(schedule, knobs)
    if made is None:
        return schedule
    if not isinstance(made, Schedule):
        raise TensorIRError(
            f"it gives a {type(made).__name__}; it has to schedule what it is given, and to return"
            " that or nothing"
        )
    return made


def _others(run: Run, rng: random.Random) -> dict[str, Any]:
    """Other values of the knobs that decide nothing."""
    asked = run.knobs.asked
    return {n: c.sample(rng) for n, c in asked.items() if not isinstance(c, Categorical)}
