"""A design space: sketches with free choices, and the candidates that fill them in."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.choices import Choice, freeze, values_of
from tensorir import TensorIRError

if TYPE_CHECKING:
    from autotune.describe import Description
    from schedule import Schedule

Decisions = Mapping[str, Any]
"""The value of each choice of a sketch, by the choice's name."""

DRAWS = 400
"""Random decisions drawn from one sketch before it counts as having nothing feasible."""

TRIES = 40
"""Attempts at one mutation or crossover that ends in a feasible candidate."""


class Infeasible(TensorIRError):
    """No candidate satisfies the constraints of a sketch.

    `Sketch.feasible` may raise it in place of returning False, to say why.
    """


@dataclass(frozen=True)
class Candidate:
    """One point of a space: a sketch's name and a value for each of its choices, in order."""

    sketch: str
    values: tuple[Any, ...]

    def as_json(self) -> list[Any]:
        """A list that JSON can hold; `from_json` reads it back."""
        return [self.sketch, list(self.values)]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Candidate:
        """The candidate of a list made by `as_json`; TensorIRError if it is not one."""
        pair = freeze(data)
        if not (
            isinstance(pair, tuple)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], tuple)
        ):
            raise TensorIRError(f"{data!r} is not a candidate; it is [sketch, [value, ...]]")
        return Candidate(pair[0], pair[1])

    @cached_property
    def key(self) -> str:
        """Text that is equal for equal candidates and sorts alike in every process."""
        return json.dumps(self.as_json(), separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class Sketch:
    """The outline of a schedule, with choices left open.

    build     makes the schedule of some decisions; ScheduleError if they do not work out
    feasible  a cheap check of decisions before any program is built; False or Infeasible refuses
    """

    name: str
    choices: tuple[Choice, ...]
    build: Callable[[Decisions], Schedule]
    feasible: Callable[[Decisions], bool] = field(default=lambda decisions: True)

    def __post_init__(self) -> None:
        names = [choice.name for choice in self.choices]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise TensorIRError(f"sketch {self.name!r} has two choices named {twice[0]!r}")

    def size(self) -> int:
        """About how many candidates there are, feasible or not."""
        return prod(choice.size() for choice in self.choices)

    def decisions(self, values: Sequence[Any]) -> dict[str, Any]:
        """The values by the names of their choices."""
        return {choice.name: value for choice, value in zip(self.choices, values)}

    def cycles(self, rows: Sequence[Sequence[Any]]) -> np.ndarray | None:
        """Cycles of one call with each of these values, by a formula, to be compared among
        themselves, `...` where a choice is not made; None where there is none."""
        return None

    def values(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Values that need no tuning, of the choices that are known to have one."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """What is to be known of it besides its choices, for `Space.describe`."""
        return ()

    def meanings(self) -> Mapping[str, str]:
        """What its choices decide, by the last part of their names."""
        return {}

    def sample(self, rng: random.Random) -> Candidate:
        """A random feasible candidate. Raises Infeasible if many draws find none."""
        reasons: Counter[str] = Counter()
        for _ in range(DRAWS if self.choices else 1):
            values = self.draw(rng)
            reason = self.refusal(values)
            if reason is None:
                return Candidate(self.name, values)
            reasons[reason] += 1
        raise Infeasible(
            f"sketch {self.name!r} has nothing feasible in {sum(reasons.values())} draws "
            f"({histogram(reasons)}); loosen its choices or drop it"
        )

    def draw(self, rng: random.Random) -> tuple[Any, ...]:
        """A random value of each choice, feasible or not."""
        return tuple([choice.sample(rng) for choice in self.choices])

    def at(self, position: float) -> tuple[Any, ...]:
        """The values at a place in the grid of all, feasible or not: 0 is the first, and close to 1
        the last; the last choice varies fastest."""
        grid = [values_of(choice) for choice in self.choices]
        place = int(position * prod(map(len, grid)))
        found = []
        for values in reversed(grid):
            place, at = divmod(place, len(values))
            found.append(values[at])
        return tuple(reversed(found))

    def refusal(self, values: Sequence[Any]) -> str | None:
        """Why these values are not feasible; None if they are."""
        try:
            return None if self.feasible(self.decisions(values)) else "infeasible"
        except Infeasible as error:
            return str(error)


class Space:
    """Several sketches of one workload. All randomness comes from the generators passed in.

    Raises TensorIRError for no sketches and for two of one name.
    """

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        names = [sketch.name for sketch in sketches]
        if not sketches or len(set(names)) < len(names):
            raise TensorIRError(f"a space needs sketches of different names, not {names!r}")
        self.sketches = {sketch.name: sketch for sketch in sketches}
        self._columns = self._encoding()

    def size(self) -> int:
        """About how many candidates there are, feasible or not."""
        return sum(sketch.size() for sketch in self.sketches.values())

    def describe(self) -> Description:
        """What it holds, as a text that prints: sketches, their choices with ranges, and sizes."""
        from autotune.describe import describe

        return describe(self)

    def decisions(self, candidate: Candidate) -> dict[str, Any]:
        """The candidate's values by the names of the choices."""
        return self._sketch(candidate).decisions(candidate.values)

    def contains(self, candidate: Candidate) -> bool:
        """Whether the candidate is one of this space and feasible."""
        sketch = self.sketches.get(candidate.sketch)
        if sketch is None or len(candidate.values) != len(sketch.choices):
            return False
        known = all(c.contains(v) for c, v in zip(sketch.choices, candidate.values))
        return known and sketch.refusal(candidate.values) is None

    def build(self, candidate: Candidate) -> Schedule:
        """The schedule of a candidate.

        Raises ScheduleError where a primitive refuses, TensorIRError for an unknown sketch.
        """
        return self._sketch(candidate).build(self.decisions(candidate))

    def sample(self, rng: random.Random, *sketches: str) -> Candidate:
        """A random feasible candidate, of any of the named sketches (of all) with equal chances.

        Raises TensorIRError, with the reasons counted, if none is found in a bounded number of
        draws.
        """
        names = list(sketches or self.sketches)
        refusals: list[str] = []
        while names:
            name = names.pop(rng.randrange(len(names)))
            try:
                return self._find(name).sample(rng)
            except Infeasible as error:
                refusals.append(str(error))
        raise Infeasible("\n".join(refusals))

    def mutate(self, candidate: Candidate, rng: random.Random) -> Candidate:
        """A feasible candidate of the same sketch that differs in one or two choices.

        Mostly a neighbouring value, sometimes a fresh one. Where nothing else is found in a
        bounded number of tries: a sample of the space.
        """
        sketch = self._sketch(candidate)
        weights = [log2(choice.size()) for choice in sketch.choices]
        if not any(weights):
            return self.sample(rng)
        for _ in range(TRIES):
            values = list(candidate.values)
            for _ in range(2 if rng.random() < 0.25 else 1):
                at = rng.choices(range(len(values)), weights)[0]
                values[at] = _moved(sketch.choices[at], values[at], rng)
            changed = tuple(values)
            if changed != candidate.values and sketch.refusal(changed) is None:
                return Candidate(sketch.name, changed)
        return self.sample(rng)

    def crossover(self, a: Candidate, b: Candidate, rng: random.Random) -> Candidate:
        """A feasible child of sketch `a`, each value from `a` or `b` with equal chances.

        Of a parent of another sketch, the values of choices of the same name that fit are taken.
        Where no child differs from both parents: a mutation of `a`.
        """
        sketch = self._sketch(a)
        given = self.decisions(b)
        own = self.decisions(a)
        other = {
            c.name: given[c.name]
            for c in sketch.choices
            if c.name in given and c.contains(given[c.name]) and given[c.name] != own[c.name]
        }
        for _ in range(TRIES if other else 0):
            values = tuple(
                [other[n] if n in other and rng.random() < 0.5 else v for n, v in own.items()]
            )
            child = Candidate(sketch.name, values)
            if child not in (a, b) and sketch.refusal(values) is None:
                return child
        return self.mutate(a, rng)

    def neighbors(self, candidate: Candidate) -> list[Candidate]:
        """All feasible candidates one step of one choice away, in an order that never varies."""
        sketch = self._sketch(candidate)
        values = candidate.values
        found: dict[Candidate, None] = {}
        for at, choice in enumerate(sketch.choices):
            for value in choice.neighbors(values[at]):
                moved = (*values[:at], value, *values[at + 1 :])
                if sketch.refusal(moved) is None:
                    found[Candidate(sketch.name, moved)] = None
        return list(found)

    def encode(self, candidate: Candidate) -> np.ndarray:
        """The candidate as float32 numbers, equally many for all candidates of the space.

        One column per sketch, then the numbers of each choice; sketches share the columns of
        choices of one name, and zero stands where a sketch lacks the choice.
        """
        sketch = self._sketch(candidate)
        row = np.zeros(len(self._columns), dtype=np.float32)
        row[self._columns[sketch.name, "", 0]] = 1
        for choice, value in zip(sketch.choices, candidate.values):
            for at, number in enumerate(choice.encode(value)):
                row[self._columns["", choice.name, at]] = number
        return row

    def _encoding(self) -> dict[tuple[str, str, int], int]:
        columns: dict[tuple[str, str, int], int] = {}
        for name in self.sketches:
            columns[name, "", 0] = len(columns)
        for choice in self._choices():
            # The number of values of an encoding does not depend on the value.
            width = len(choice.encode(choice.sample(random.Random(0))))
            for at in range(width):
                columns.setdefault(("", choice.name, at), len(columns))
        return columns

    def _choices(self) -> Iterator[Choice]:
        for sketch in self.sketches.values():
            yield from sketch.choices

    def _sketch(self, candidate: Candidate) -> Sketch:
        sketch = self._find(candidate.sketch)
        if len(candidate.values) != len(sketch.choices):
            raise TensorIRError(
                f"sketch {sketch.name!r} has {len(sketch.choices)} choices, "
                f"the candidate {len(candidate.values)} values; it belongs to another space"
            )
        return sketch

    def _find(self, name: str) -> Sketch:
        found = self.sketches.get(name)
        if found is None:
            known = ", ".join(map(repr, self.sketches))
            raise TensorIRError(f"there is no sketch {name!r}; sketches are {known}")
        return found


def histogram(reasons: Mapping[str, int]) -> str:
    """Reasons and how often each occurred, most frequent first."""
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} x {reason}" for reason, count in ranked)


def _moved(choice: Choice, value: Any, rng: random.Random) -> Any:
    near = choice.neighbors(value) if rng.random() < 0.7 else []
    return rng.choice(near) if near else choice.sample(rng)
