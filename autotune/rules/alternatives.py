"""Other algorithms for the same operator, each a start of its own for the rules."""

from __future__ import annotations

from collections.abc import Iterator

from schedule import Schedule, ScheduleError
from tensorir import PrimFunc, allows, known_algorithms


def alternatives(func: PrimFunc, numerics: str) -> Iterator[tuple[str, Schedule]]:
    """Names and programs in which another algorithm computes one block, as far as `numerics`
    allows it. What follows the block elementwise is part of its last stage."""
    blocks = Schedule(func).get_blocks()
    for algorithm in known_algorithms().values():
        if not allows(numerics, algorithm.numerics):
            continue
        for block in blocks:
            sch = Schedule(func)
            try:
                last = sch.use_algorithm(block, algorithm.name)
            except ScheduleError:  # it is for something else
                continue
            _join_epilogue(sch, last)
            yield f"{algorithm.name}({block})", sch


def _join_epilogue(sch: Schedule, last: str) -> None:
    """Inline the only consumer of a block into it, as often as there is one."""
    while len(users := sch.get_consumers(last)) == 1:
        try:
            sch.reverse_compute_inline(users[0])
        except ScheduleError:  # it is no elementwise stage
            return
