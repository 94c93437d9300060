"""create_group: stages that are computed together in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedule.te.call import Call
from schedule.te.errors import RequestError
from schedule.te.nest import Nest
from schedule.te.ops import StageOp
from schedule.te.request import call_text
from schedule.te.stage import Stage

if TYPE_CHECKING:
    from schedule.te.schedule import TESchedule


class Group(Stage):
    """Stages that compute_at moves together; it has no loops of its own.

    A stage of it that is asked for a place itself is computed there.
    """

    def __init__(self, owner: TESchedule, stages: Sequence[Stage]) -> None:
        names = ", ".join(stage.name for stage in stages)
        super().__init__(owner, f"group of {names}", StageOp("group", (), (), ()), Nest((), ()))
        self.stages = list(stages)

    def compute_inline(self) -> None:
        """Refused: stages are inlined one by one."""
        call = self._call("compute_inline")
        raise call.refused("stages are inlined one by one", "compute_inline each of them")

    @property
    def shown(self) -> str:
        return f"({self.name})"


def create_group(s: TESchedule, outputs: Any, inputs: Any, include_inputs: bool) -> Group:
    """See TESchedule.create_group."""
    ends, begins = _stages(s, outputs), _stages(s, inputs)
    text = call_text("s", "create_group", (), {"outputs": outputs, "inputs": inputs})
    between = _between(s, ends, begins)
    missed = [stage.shown for stage in begins if stage not in between]
    if missed:
        raise RequestError(text, "", f"{missed[0]} is not needed for any of the outputs")
    wanted = [
        stage for stage in between
        if not stage.fixed and (include_inputs or stage not in begins)
    ]  # fmt: skip
    if not wanted:
        raise RequestError(text, "", "no stage is between the inputs and the outputs")
    group, inner = Group(s, wanted), [_outermost(stage) for stage in wanted]
    common = {stage.group for stage in wanted}
    if len(common) == 1:
        inner, group.group = [*wanted], wanted[0].group
    for each in inner:
        if not {*getattr(each, "stages", ())} <= {*wanted}:
            raise RequestError(text, "", f"{each.shown} is only in part between them")
    before = [(each, each.group) for each in inner]

    def revert() -> None:
        for each, outer in before:
            each.group = outer

    s.record(Call(group, text).request(revert))
    for each in inner:
        each.group = group
    return group


def _outermost(stage: Stage) -> Stage:
    """The outermost group of a stage, or the stage if it is in none."""
    return stage if stage.group is None else _outermost(stage.group)


def _stages(s: TESchedule, tensors: Any) -> list[Stage]:
    several = tensors if isinstance(tensors, (tuple, list)) else [tensors]
    return [s[tensor] for tensor in several]


def _between(s: TESchedule, ends: Sequence[Stage], begins: Sequence[Stage]) -> list[Stage]:
    """The stages from the outputs back to the inputs, these included."""
    found: dict[Stage, None] = {}
    stack = list(ends)
    while stack:
        stage = stack.pop()
        if stage not in found:
            found[stage] = None
            if stage not in begins:
                stack += [s[tensor] for tensor in stage.op.inputs]
    return list(found)
