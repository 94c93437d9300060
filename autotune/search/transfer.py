"""What was best for a program of the same structure, put into the space of another one.

Sketches and choices have the same names there, but some choices are there for some sizes alone: one
that was not made has the value that needs no tuning. A value that this space has is taken as it is.
Of other tiles, the inner factors are kept as far as they fit, for they are what registers and
caches decide; the outermost one makes up the rest. Of options, which may be tiles of several axes
and how many of them are a task, the one is taken whose sizes are nearest.

What is nearest may fit badly all the same: tiles that no longer divide the extents, tasks that no
longer end where they do. So where a formula tells cycles, sizes are changed to near ones as long as
these take less by it, and by more than they did where the candidate is from: there it was best,
whatever the formula says. Orders and what is no size stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import log2
from typing import Any

from autotune.choices import Categorical, Choice, values_of
from autotune.space import Candidate, Sketch, Space

OUTERMOST = 0.1
"""How much the number of an outermost factor counts: an inner one counts 1."""

OTHER = 4.0
"""Doublings of a size that count as much as what is no size and differs."""

NEAR = 4
"""Values that are near one, of as many choices as have sizes: the nearest ones, itself included."""

LESS = 1.1
"""How many times as long as with near sizes a candidate takes at most by the formula, unless it did
so where it is from. On recorded times of eight operators 70 % of the pairs that differ in sizes of
one choice, and by 10 to 20 % by the formula, are in its order, 83 % of those by 20 to 50 %. Of the
best by the formula in other sizes 30 candidates of nine sketches were changed so: they take 0.72 of
the time, 26 of them less."""


def adapted(
    space: Space,
    candidate: Candidate,
    choices: Sequence[str] = (),
    constants: Collection[str] = (),
    there: Callable[[], Space | None] = lambda: None,
) -> Candidate | None:
    """The feasible candidate of `space` that is most like one of another space; None where the
    sketch is not here, or nothing alike is feasible.

    choices    the names of what its values decide; none where they are those of this space
    constants  parameters that are known when a kernel is built, which decide what needs no tuning
    there      makes the space that it is from, if that is known; asked where it decides
    """
    sketch = space.sketches.get(candidate.sketch)
    if sketch is None:
        return None
    here = [choice.name for choice in sketch.choices]
    if len(choices or here) != len(candidate.values):
        return None
    made = dict(zip(choices or here, candidate.values))
    usual = {} if made.keys() >= set(here) else sketch.values(constants)
    if not {*made, *usual} >= set(here):
        return None
    values = tuple(
        _like(choice, made[choice.name]) if choice.name in made else usual[choice.name]
        for choice in sketch.choices
    )
    if sketch.refusal(values) is not None:
        return None
    ratio, other = _least(sketch, values)
    origin = there() if ratio > LESS else None
    most = LESS
    if origin is not None and origin.contains(candidate):
        most *= _least(origin.sketches[candidate.sketch], candidate.values)[0]
    while ratio > most:
        values = other
        ratio, other = _least(sketch, values)
    return Candidate(sketch.name, values)


def _least(sketch: Sketch, values: tuple[Any, ...]) -> tuple[float, tuple[Any, ...]]:
    """How many times as long as with the best near sizes it takes by the formula, and with which; 1
    and the values themselves where there is no formula."""
    rows = [values, *_near(sketch, values)]
    cycles = sketch.cycles(rows) if len(rows) > 1 else None
    if cycles is None or not cycles.min() > 0:
        return 1.0, values
    return float(cycles[0] / cycles.min()), rows[int(cycles.argmin())]


def _near(sketch: Sketch, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The feasible ones that differ in sizes of one choice."""
    for at, (choice, value) in enumerate(zip(sketch.choices, values)):
        others = _nearest(choice, value) if isinstance(value, tuple) else ()
        for other in others[:NEAR]:
            changed = (*values[:at], other, *values[at + 1 :])
            same = sorted(_sizes(other)) == sorted(_sizes(value))  # also where it is an order
            if not same and _unlike(other, value) < OTHER and sketch.refusal(changed) is None:
                yield changed


def _like(choice: Choice, value: Any) -> Any:
    """The value itself, or the one whose numbers are nearest, the first of equals."""
    return value if choice.contains(value) else _nearest(choice, value)[0]


def _nearest(choice: Choice, value: Any) -> Sequence[Any]:
    """All values of a choice, those whose numbers are nearest first."""
    if isinstance(choice, Categorical):
        return sorted(choice.options, key=lambda option: _unlike(option, value))
    known = values_of(choice)
    try:
        wanted = choice.encode(value)
    except (TypeError, ValueError, IndexError):  # a value of another kind
        return known
    return sorted(known, key=lambda other: _apart(choice.encode(other), wanted))


def _unlike(a: Any, b: Any) -> float:
    """By how many doublings the sizes in two options differ; what else differs counts as OTHER."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return sum(map(_unlike, a, b))
    if _is_size(a) and _is_size(b):
        return abs(log2(a + 1) - log2(b + 1))
    return 0.0 if a == b else OTHER


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, tuple):
        for part in value:
            yield from _sizes(part)
    elif _is_size(value):
        yield value


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _apart(numbers: Sequence[float], wanted: Sequence[float]) -> float:
    weights = [OUTERMOST, *[1.0] * (len(wanted) - 1)]
    return sum(w * abs(a - b) for w, a, b in zip(weights, numbers, wanted))
