"""What was best for a program of the same structure, put into the space of another one.

Sketches and choices have the same names there, but some choices are there for some sizes alone: one
that was not made has the value that needs no tuning. A value that this space has is taken as it is.
Of other tiles, the inner factors are kept as far as they fit, for they are what registers and
caches decide; the outermost one makes up the rest. Of options, which may be tiles of several axes
and how many of them are a task, the one is taken whose sizes are nearest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import log2
from typing import Any

from autotune.choices import Categorical, Choice, values_of
from autotune.space import Candidate, Space

OUTERMOST = 0.1
"""How much the number of an outermost factor counts: an inner one counts 1."""

OTHER = 4.0
"""Doublings of a size that count as much as what is no size and differs."""


def adapted(
    space: Space, candidate: Candidate, choices: Sequence[str] = (), constants: Collection[str] = ()
) -> Candidate | None:
    """The feasible candidate of `space` that is most like one of another space; None where the
    sketch is not here, or nothing alike is feasible.

    choices    the names of what its values decide; none where they are those of this space
    constants  parameters that are known when a kernel is built, which decide what needs no tuning
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
    return None if sketch.refusal(values) is not None else Candidate(sketch.name, values)


def _like(choice: Choice, value: Any) -> Any:
    """The value itself, or the one whose numbers are nearest, the first of equals."""
    if choice.contains(value):
        return value
    if isinstance(choice, Categorical):
        return min(choice.options, key=lambda option: _unlike(option, value))
    known = values_of(choice)
    try:
        wanted = choice.encode(value)
    except (TypeError, ValueError, IndexError):  # a value of another kind
        return known[0]
    return min(known, key=lambda other: _apart(choice.encode(other), wanted))


def _unlike(a: Any, b: Any) -> float:
    """By how many doublings the sizes in two options differ; what else differs counts as OTHER."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return sum(map(_unlike, a, b))
    if _is_size(a) and _is_size(b):
        return abs(log2(a + 1) - log2(b + 1))
    return 0.0 if a == b else OTHER


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _apart(numbers: Sequence[float], wanted: Sequence[float]) -> float:
    weights = [OUTERMOST, *[1.0] * (len(wanted) - 1)]
    return sum(w * abs(a - b) for w, a, b in zip(weights, numbers, wanted))
