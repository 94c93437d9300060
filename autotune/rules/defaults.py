"""What needs no tuning: an algorithm for each block, by estimated time, and values of choices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import NamedTuple

from autotune.rules.alternatives import (
    Start,
    first_start,
    other_algorithms,
    reductions,
    with_algorithm,
)
from autotune.rules.generate import sketches, sketches_of
from autotune.rules.planned import PlannedSketch
from autotune.rules.registry import rules_for
from autotune.space import Candidate, Space
from schedule import Refusal
from tensorir import DEFAULT_NUMERICS, Device, PrimFunc

SURELY = 1.1
"""How many times less an algorithm of no fewer stages has to take: it is told of other nests."""


class Chosen(NamedTuple):
    """A program, and the sketch of it that needs no tuning."""

    start: Start
    sketch: PlannedSketch


def choose(
    func: PrimFunc,
    device: Device,
    numerics: str | None,
    constants: Collection[str] = (),
    first: Start | None = None,
) -> Chosen:
    """The algorithms of the least estimated time, each block's by itself, and their plans.

    Those that are better wherever they fit are used in any case. Others are, as far as `numerics`
    allows, where what they change in the program takes surely less time than before; with None
    those alone that need not be asked for. `constants` are the parameters that are known when a
    kernel is built, `first` the `first_start` of the function where the caller has made it.
    """
    allowed = DEFAULT_NUMERICS if numerics is None else numerics
    algorithms = other_algorithms(allowed, device, numerics is not None)
    start = first or first_start(func, allowed, device)
    start, sketch = _best(start, device, allowed, constants, algorithms)
    found = sketches_of(start, device, allowed, constants=constants)
    sketch = sketch or default_sketch(found, constants)
    assert sketch is not None
    return Chosen(start, sketch)


def _best(
    start: Start, device: Device, allowed: str, constants: Collection[str],
    algorithms: Collection[str],
) -> tuple[Start, PlannedSketch | None]:  # fmt: skip
    """The program with the best of the algorithms, and the sketch of it that needs no tuning, if
    that was made: others are only asked for their estimates, and a program without any is not."""

    def planned(start: Start, most: float = inf, told: bool = False) -> Chosen | None:
        found = sketches_of(start, device, allowed, most=most, told=told, constants=constants)
        sketch = default_sketch(found, constants)
        return None if sketch is None else Chosen(start, sketch)

    best = whole = None
    for block in reductions(start.schedule) if algorithms else ():
        now = start if best is None else best.start
        made = [with_algorithm(now, block, algorithm, device) for algorithm in algorithms]
        told = [planned(start, told=True) for start in made if start is not None]
        tried = [found for found in told if found is not None]
        if not tried:
            continue
        if best is None:  # no bound may spare it: then others need not be asked for all they take
            best = whole = planned(start, 0.0)
        if best is None:
            totals = [_cycles(each.sketch, (), constants) for each in tried]
            least, n = min((inf if total is None else total, n) for n, total in enumerate(totals))
            best = whole = planned(start, SURELY * least)
            if best is None:
                best = tried[n]
                continue
        stages = len(best.start.schedule.get_blocks())
        less = [1.0 if len(c.start.schedule.get_blocks()) < stages else SURELY for c in tried]
        saved = [_saved(c.sketch, best.sketch, constants, n) for c, n in zip(tried, less)]
        best = tried[saved.index(max(saved))] if max(saved) > 0.0 else best
    if best is None:
        again = rules_for(device).again if start.name else None
        return again(planned, start) if again else (start, None)
    alone = best is whole or len(best.sketch.plans) == 1  # no plan is of what others leave
    return best.start, best.sketch if alone else None


def _saved(
    one: PlannedSketch, other: PlannedSketch, constants: Collection[str], surely: float
) -> float:
    """Cycles that the plans of one take less than those of another, of those that are not of both;
    none unless they are `surely` times as many, and where a plan cannot tell."""
    mine, others = ([plan.subject for plan in sketch.plans] for sketch in (one, other))
    before = _cycles(other, mine, constants)
    after = None if before is None else _cycles(one, others, constants, before / surely)
    return 0.0 if before is None or after is None else before - after


def _cycles(
    sketch: PlannedSketch,
    without: Collection[object],
    constants: Collection[str],
    most: float = inf,
) -> float | None:
    """What plans take together; None if it is not below `most`, or one of them cannot tell."""
    total = 0.0
    for plan in reversed(sketch.plans):  # what is first in the program is often larger
        if plan.subject not in without:
            time = plan.estimate(constants)
            if time is None or total + time >= most:
                return None
            total += time
    return total


def make_space(
    func: PrimFunc, device: Device, numerics: str = DEFAULT_NUMERICS, seed: int = 0,
    constants: Collection[str] = (),
) -> Space:  # fmt: skip
    """The sketches of a function; the first is the one that the default schedule comes from.

    Besides those of the rules there are the general nests of all of its blocks, with the places of
    those that others read, and the program as it was written.

    `numerics` is the last class of NUMERICS that schedules may have: "bitwise" leaves out the rules
    that cannot keep the order of sums, "algebraic" brings in other algorithms. Where plans go
    together in more ways than there are sketches, `seed` decides which of them are looked at.
    Which algorithms the first sketch uses depends on `constants`, known when a kernel is built.
    """
    first = first_start(func, numerics, device)
    algorithms = other_algorithms(numerics, device)
    start, _ = _best(first, device, numerics, constants, algorithms)
    found = sketches(func, device, numerics, True, seed, first, start, constants)
    return Space([replace(sketch, constants=tuple(constants)) for sketch in found])


def default_sketch(
    found: Iterable[PlannedSketch], constants: Collection[str]
) -> PlannedSketch | None:
    """The first sketch that suits where these parameters are known when a kernel is built, or else
    the first; later ones are not asked for."""
    first = None
    for sketch in found:
        if sketch.suits(constants):
            return sketch
        first = first or sketch
    return first


def default_candidates(space: Space, constants: Collection[str] = ()) -> list[Candidate]:
    """Of each algorithm the candidate that needs no tuning, the one of default schedules first."""
    return list(_defaults(space, constants))


def _defaults(space: Space, constants: Collection[str]) -> Iterator[Candidate]:
    groups: dict[str, list[PlannedSketch]] = {}
    for sketch in space.sketches.values():
        assert isinstance(sketch, PlannedSketch)
        groups.setdefault(sketch.algorithm, []).append(sketch)
    for group in groups.values():
        best = default_sketch(group, constants)
        for sketch in sorted(group, key=lambda each: each is not best):
            with suppress(Refusal):  # of all nests that a plan puts first, which `describe` tells
                yield Candidate(sketch.name, sketch.default(constants))
                break


def default_candidate(space: Space, constants: Collection[str] = ()) -> Candidate:
    """The candidate that needs no tuning: the default values of the default sketch."""
    return next(_defaults(space, constants))
