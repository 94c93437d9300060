"""Other algorithms for the same operator, each a start of its own for the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from autotune.rules.group import Refused, attempt, in_scan, output_store
from autotune.rules.inlined import join_epilogue, leave_out
from schedule import BlockRef, Schedule, ScheduleError, filled_windows, library
from tensorir import Algorithm, Device, PrimFunc, allows, known_algorithms, variables


@dataclass(frozen=True, eq=False)
class Start:
    """A program to begin with, and the algorithms that compute some of its blocks; "" for none.

    Its schedule remembers the steps that are made of it, and it remembers the starts with one
    algorithm more: what compares algorithms and the space of all of them try the same. `refused`
    are stages that did not become part of what an algorithm computes, and why.
    """

    name: str
    schedule: Schedule
    refused: Refused = field(default_factory=dict)
    _with: dict[tuple[str, str], Start | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.schedule.remember_steps()


def _definition(func: PrimFunc) -> Start:
    """The program without what no stage reads. Other stages make what windows read with padding,
    however that is written, and take sums to their place that are stored elsewhere than at
    variables of theirs, as in an array that is one row after the other."""
    sch = Schedule(func)
    refused = leave_out(sch)
    for name in reductions(sch):
        block = sch.state.block(name)
        store, own = output_store(block), {it.var for it in block.iters}
        if store is None or in_scan(sch, block):
            continue
        why, made = refused.setdefault(name, {}), store.buffer.name
        for part, place in filled_windows(block).items():
            attempt(why, f"{part!r} ahead of windows", library.as_stage, sch, name, place)
        if any(variables(i) and i not in own for i in store.indices):
            attempt(why, f"{name!r} at its variables", sch.reindex, name, made, "local")
    return Start("", sch, {name: why for name, why in refused.items() if why})


def first_start(func: PrimFunc, numerics: str, device: Device | None = None) -> Start:
    """The program with the algorithms that are better wherever they fit."""
    start = _definition(func)
    for algorithm in _allowed(numerics, device):
        if algorithm.always:
            start = _everywhere(start, algorithm.name, device)
    return start


def other_algorithms(numerics: str, device: Device, asked: bool = True) -> list[str]:
    """The names of those that `numerics` allows, that are better for some sizes only, and that the
    rules for a device know; if no class was `asked` for, those that need not be."""
    return [
        algorithm.name
        for algorithm in _allowed(numerics, device)
        if not algorithm.always and (algorithm.preferred or asked)
    ]


def with_algorithm(
    start: Start, block: str, algorithm: str, device: Device | None = None
) -> Start | None:
    """`start` with one more block by an algorithm that is for it, and for the device if given, and
    what follows it elementwise made part of its last stage; else None."""
    if (key := (block, algorithm)) not in start._with:
        start._with[key] = _using(start, block, algorithm, device)
    return start._with[key]


def _using(start: Start, block: str, algorithm: str, device: Device | None) -> Start | None:
    sch, known = start.schedule.copy(), known_algorithms()[algorithm]
    if block not in sch.get_blocks():
        return None  # an algorithm for another block computes what it made
    try:
        last: BlockRef | None = sch.use_algorithm(block, algorithm)
    except ScheduleError:
        last = library.gpu.use_on_axes(sch, block, algorithm) if known.kinds == ("gpu",) else None
    if last is None or device is not None and not known.is_for(device.target.features):
        return None
    refused = start.refused | join_epilogue(sch, last)
    return Start(f"{start.name}+{algorithm}({block})".lstrip("+"), sch, refused)


def reductions(sch: Schedule) -> list[str]:
    """The blocks that algorithms may be for."""
    return [str(name) for name in sch.get_blocks() if sch.state.block(name).is_reduction]


def starts(
    func: PrimFunc, numerics: str, device: Device, first: Start, chosen: Start
) -> Iterator[Start]:
    """The programs to make sketches of: that which was `chosen`, `first`, with the algorithms that
    are better wherever they fit, the definition, and then one with each other algorithm that
    `numerics` allows, in all blocks that it is for."""
    others = other_algorithms(numerics, device)
    made = (_everywhere(first, algorithm, device) for algorithm in others)
    seen: set[str] = set()
    for start in chain((chosen, first, _definition(func)), made):
        if start.name not in seen:
            seen.add(start.name)
            yield start


def _everywhere(start: Start, algorithm: str, device: Device | None) -> Start:
    """An algorithm in all blocks that it is for."""
    for block in reductions(start.schedule):
        start = with_algorithm(start, block, algorithm, device) or start
    return start


def _allowed(numerics: str, device: Device | None) -> list[Algorithm]:
    known, own = known_algorithms().values(), None if device is None else device.kind
    return [a for a in known if allows(numerics, a.numerics) and own in (a.kinds or (own,))]
