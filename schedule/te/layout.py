"""transform_layout of a stage: its tensor in another layout, and its loops in that order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedule.errors import Illegal, hint_text
from schedule.rewrite.index_map import Layout, index_map_text, layout_of
from schedule.state import State
from schedule.te.call import Call
from schedule.te.nest import IterVar, Nest, among
from schedule.te.ops import StageOp, key_of
from schedule.te.request import Request
from tensorir import Buffer, int_value

if TYPE_CHECKING:
    from schedule.te.maker import StageMaker
    from schedule.te.schedule import TESchedule
    from schedule.te.stage import Stage


@dataclass(frozen=True)
class StageLayout:
    """`stage`, whose loops were those of `before`, has its tensor as the index map `text` says."""

    stage: Stage
    before: Nest
    text: str
    tensor: tuple[Any, int]
    request: Request

    def apply(self, maker: StageMaker) -> None:
        head, _, results = self.text.partition(":")
        given = [name.strip() for name in head.split(",")]
        names = iter(given)
        once = maker.without_variable.get(self.stage, ())
        roots = [root for root in self.before.roots if not among(root, once)]
        own = [f"sum_{n}" for n in range(len(given) + len(roots))]
        spare = iter([name for name in own if name not in given])
        sums = {id(root): next(spare) for root in roots if root.is_reduce}
        every = [sums[id(root)] if root.is_reduce else next(names) for root in roots]
        whole = f"{', '.join(every)}: {', '.join([results.strip(), *sums.values()])}"
        block = maker.blocks[self.stage]
        maker.sch.transform_block_layout(block, whole)
        maker.sch.transform_layout(block, maker.buffers[self.tensor], self.text)


def transform_layout(s: TESchedule, call: Call, stage: Stage, mapping: Any) -> list[IterVar]:
    """See Stage.transform_layout."""
    nest, op = stage.nest, stage.op
    _require_untouched(s, call, stage)
    try:
        text = mapping if isinstance(mapping, str) else index_map_text(mapping)
        sizes = tuple([root.extent for root in nest.data])
        buffer = Buffer(stage.name, sizes, op.outputs[0].dtype)
        layout = layout_of(State(s.prim_func), text, buffer, stage.name)
    except Illegal as refusal:
        raise call.refused(refusal.reason, hint_text(refusal.hint)) from None
    except TypeError as error:
        raise call.refused(str(error)) from None
    _require_whole(call, stage, layout)
    made = tuple([IterVar(f"ax{d}", extent) for d, extent in enumerate(layout.shape)])
    new = StageOp(op.name, made, op.reduce_axis, op.inputs, op.tag, op.attrs)
    new.outputs = op.outputs
    request = s.change(call.text, [stage], {new: stage})
    s.meet(StageLayout(stage, nest, text, key_of(op.outputs[0]), request))
    stage.op, roots = new, (*made, *nest.reduced)
    stage.nest = Nest(roots, roots)
    return list(made)


def _require_untouched(s: TESchedule, call: Call, stage: Stage) -> None:
    """Refuse for a stage whose tensor the caller knows, or whose loops requests were made for."""
    if s.is_output(stage):
        raise call.refused(
            f"{stage.name!r} is an output: callers know its layout",
            "cache_write it, and transform the layout of the copy",
        )
    if len(stage.op.outputs) != 1 or len(stage.nest.data) != stage.op.outputs[0].ndim:
        raise call.refused(f"{stage.shown} does not have one loop for each dimension of one tensor")
    asked = [step.request for step in stage.nest.steps]
    asked += [kind.request for kind in stage.kinds.values() if kind.axis is not None]
    asked += [
        by
        for other in s.stages
        for place, by in [other.home]
        if isinstance(place, tuple) and place[0] is stage and by is not None
    ]
    if asked:
        raise call.refused(
            f"{asked[0].text} is for a loop that transform_layout takes from {stage.shown}",
            "transform_layout first, or withdraw that request",
        )


def _require_whole(call: Call, stage: Stage, layout: Layout) -> None:
    if not layout.exact:
        shape = ", ".join(map(repr, layout.shape))
        raise call.refused(
            f"the new shape [{shape}] has places that no element of {stage.name!r} comes to",
            "divide by what divides the dimension; sch.transform_layout of s.schedule can pad",
        )
    for part, size in zip(layout.components, layout.shape):
        if int_value(size) == 1 and not among(part, layout.old):
            raise call.refused(f"{part!r} of the map is always 0", "leave it out")
    if layout.inverse is None:
        raise call.refused(f"the axes of {stage.shown} cannot be told from the results of the map")


def require_first_layout(s: TESchedule, call: Call, stage: Stage, change: str) -> None:
    """Refuse a change of the graph for a tensor that has another layout than its shape says."""
    if s.has_layout(stage):
        raise call.refused(
            f"the layout of {stage.shown} was transformed", f"{change} before transform_layout"
        )
