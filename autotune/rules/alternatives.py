"""Other algorithms for the same operator, each a start of its own for the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.rules.group import join_epilogue
from schedule import Schedule, ScheduleError
from tensorir import PrimFunc, allows, known_algorithms


@dataclass(frozen=True)
class Start:
    """A program to begin with, and the algorithms that compute some of its blocks; "" for none."""

    name: str
    schedule: Schedule


def starts(func: PrimFunc, numerics: str) -> Iterator[Start]:
    """The programs to make sketches of, the one of the default schedule first.

    That uses the algorithms that are better without tuning. The definition follows, and then one
    with each other algorithm that `numerics` allows, in all blocks that it is for.
    """
    allowed = [a for a in known_algorithms().values() if allows(numerics, a.numerics)]
    best = Schedule(func)
    names = [name for a in allowed if a.preferred for name in _use(best, a.name)]
    if names:
        yield Start("+".join(names), best)
    yield Start("", Schedule(func))
    for algorithm in allowed:
        sch = best.copy()
        more = [] if algorithm.preferred else _use(sch, algorithm.name)
        if more:
            yield Start("+".join(more), sch)


def _use(sch: Schedule, algorithm: str) -> list[str]:
    """Use an algorithm in all blocks that it is for; returns what was done.

    What follows such a block elementwise becomes part of its last stage.
    """
    done = []
    for block in [name for name in sch.get_blocks() if sch.state.block(name).is_reduction]:
        try:
            last = sch.use_algorithm(block, algorithm)
        except ScheduleError:  # it is for something else
            continue
        done.append(f"{algorithm}({block})")
        join_epilogue(sch, last)
    return done
