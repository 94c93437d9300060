"""A trace for a program that calls things otherwise than the one that it was recorded on.

Names are handles, and those of what steps make come of those that were there. So the steps are made
on both programs at once, and what a step names is found by its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from schedule.instruction import Instruction
from schedule.trace import Trace
from tensorir import Block, For, PrimFunc, TensorIRError, walk

if TYPE_CHECKING:
    from schedule.schedule import Schedule

LOOPS, BLOCKS, BUFFERS = "loops", "blocks", "buffers"

NAMES_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("loop", "loops", "over", "decision"), (LOOPS,)),
    **dict.fromkeys(
        ("block", "after", "other", "consumer_blocks", "epilogue", "reduction"), (BLOCKS,)
    ),
    "block_or_loop": (BLOCKS, LOOPS),
    "buffer": (BUFFERS,),
}
"""Parameter of primitives -> what it names, in the order in which that is looked for."""


def renamed_steps(trace: Trace, recorded_on: "Schedule", other: "Schedule") -> Iterator[Trace]:
    """Each step of `trace` as `other` calls things, after which it has to be made there.

    `recorded_on` is the schedule that the trace belongs to, and is changed alike. Raises
    TensorIRError where the two are not the same but for names, ScheduleError where a step is
    refused.
    """
    for step in trace.instructions:
        names = _counterparts(recorded_on.func, other.func)
        args = {key: _renamed(value, names, key) for key, value in step.args.items()}
        yield Trace((Instruction(step.name, args),))
        recorded_on.apply(Trace((step,)))


def _counterparts(first: PrimFunc, second: PrimFunc) -> dict[str, dict[str, str]]:
    """For each kind of name, what stands in the second program at its place."""
    ours, theirs = _names(first), _names(second)
    if any(len(ours[kind]) != len(theirs[kind]) for kind in ours):
        raise TensorIRError(
            f"the trace was recorded on {first.name!r}, and {second.name!r} is another program,"
            " not the same by other names"
        )
    return {kind: dict(zip(ours[kind], theirs[kind])) for kind in ours}


def _names(func: PrimFunc) -> dict[str, list[str]]:
    nodes = list(walk(func.body))
    return {
        LOOPS: [node.name for node in nodes if isinstance(node, For)],
        BLOCKS: [node.name for node in nodes if isinstance(node, Block)],
        BUFFERS: [buffer.name for buffer in (*func.params, *func.buffers)],
    }


def _renamed(value: Any, names: Mapping[str, Mapping[str, str]], key: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_renamed(each, names, key) for each in value]
    if isinstance(value, str):
        for kind in NAMES_OF.get(key, ()):
            if value in names[kind]:
                return names[kind][value]
    return value
