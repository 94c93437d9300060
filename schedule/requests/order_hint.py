"""Which other order of requests works, for one that is refused because of a step before it.

rolling_buffer and pipeline lay down how the iterations of a loop depend on each other, so that
little can be done to it afterwards. What is said here was tried: it is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedule.errors import ScheduleError
from schedule.instruction import Instruction, output_names
from schedule.trace import Trace

if TYPE_CHECKING:
    from schedule.schedule import Schedule

LAST = ("rolling_buffer", "pipeline")
"""Steps that want to be the last ones at their loop."""

KINDS = ("parallel", "vectorize", "bind")
"""Requests for iterations that run at once."""


def late_steps(trace: Trace) -> list[int]:
    """Where there are steps of LAST."""
    return [place for place, step in enumerate(trace.instructions) if step.name in LAST]


def order_hint(schedule: Schedule, name: str, args: dict[str, Any]) -> str | None:
    """How to have what `schedule` refuses: earlier, of a part of the loop, or instead of a step;
    None where no step of LAST is in the way, or where nothing helps."""
    steps, request = schedule.trace.instructions, Instruction(name, args)
    late = late_steps(schedule.trace)
    for place in range(late[-1] if late else -1, -1, -1):
        for loop, made in _earlier(schedule, place, request):
            of = f", and from there on {made!r} in place of {loop!r}" if loop else ""
            return f"{request} before {_numbered(steps, place)}{of}"
    for place in reversed(late):
        loop, step = str(args.get("loop")), _numbered(steps, place)
        if name not in KINDS:
            break
        if _of_outer(schedule, place, request, early=True):
            return f"split {loop!r} and {name} the outer loop before {step}, of the inner loop"
        if _of_outer(schedule, place, request, early=False):
            return f"split {loop!r} before {step}, of the inner loop, and then {name} the outer one"
    for place in reversed(late):
        trial = _after(schedule, place, Trace(_unnamed(steps[place + 1 :])))
        if trial is not None and _accepts(trial, Trace((request,))):
            return f"leave out {_numbered(steps, place)}: they do not go together"
    return None


def _numbered(steps: tuple[Instruction, ...], place: int) -> str:
    """A step as it was typed."""
    return f"step {place + 1}, {replace(steps[place], outputs=None)}"


def _earlier(
    schedule: Schedule, place: int, request: Instruction
) -> Iterator[tuple[str | None, str | None]]:
    """Whether the request is accepted before the step at `place`, and then the steps from there
    on: as they are, or else for one of the loops that it made of the one they were for."""
    first = _after(schedule, place, Trace((request,)))
    if first is None:
        return
    rest = schedule.trace.instructions[place:]
    if _accepts(first.copy(), Trace(rest)):
        yield None, None
    loops = [str(v) for v in request.args.values() if isinstance(v, str)]
    loops += [str(v) for v in request.args.get("loops", ())]
    for made in reversed(output_names(first.trace.instructions[-1].outputs)):
        for loop in loops:
            if _accepts(first.copy(), Trace(_unnamed(rest, loop, made))):
                yield loop, made


def _of_outer(schedule: Schedule, place: int, request: Instruction, early: bool) -> bool:
    """Whether the steps from `place` on are accepted for the inner part of the loop, and what is
    requested for the outer one, before them or after."""
    loop = request.args["loop"]
    for factors in ([2, None], [None, 2]):
        split = Instruction("split", {"loop": loop, "factors": factors})
        trial = _after(schedule, place, Trace((split,)))
        if trial is None:
            continue
        outer, inner = output_names(trial.trace.instructions[-1].outputs)
        rest = _unnamed(schedule.trace.instructions[place:], loop, inner)
        asked = (replace(request, args={**request.args, "loop": outer}),)
        if _accepts(trial, Trace((*asked, *rest) if early else (*rest, *asked))):
            return True
    return False


def _unnamed(
    steps: tuple[Instruction, ...], loop: str | None = None, made: str | None = None
) -> tuple[Instruction, ...]:
    """The steps for the loop `made` in place of `loop`; what they make may have other names."""

    def named(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [named(each) for each in value]
        return made if loop is not None and value == loop else value

    return tuple(
        Instruction(s.name, {key: named(value) for key, value in s.args.items()}) for s in steps
    )


def _after(schedule: Schedule, place: int, more: Trace) -> Schedule | None:
    """The schedule as it was before the step at `place`, with `more` done; None if refused."""
    trial = schedule.copy()
    trial.undo(len(schedule.trace) - place)
    return trial if _accepts(trial, more) else None


def _accepts(schedule: Schedule, more: Trace) -> bool:
    try:
        schedule.apply(more)
    except ScheduleError:
        return False
    return True
