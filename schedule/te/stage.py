"""One stage of a schedule in TVM's tensor-expression style, and what can be asked of its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedule.te.call import Call
from schedule.te.kinds import in_the_way
from schedule.te.layout import transform_layout
from schedule.te.nest import IterVar, Nest, Step, is_data
from schedule.te.ops import CachedTensor, StageOp
from schedule.te.stage_kinds import KindRequests
from schedule.te.values import axes_of, factor_of, quotient
from tensorir import TensorIRError, const


class Stage(KindRequests):
    """Requests to one stage: recorded at the call, met when the program is asked for.

    A call is refused at once, with ScheduleError, where it can never be met: an axis that is no
    loop of the stage, a factor of 0. All else is found when the schedule is made, since later
    requests may make it legal; the error then names the request, and `withdraw` takes it back.
    """

    @property
    def block(self) -> str:
        """The block of the stage in the program that the requests come to."""
        return self._owner.block_of(self)

    def split(
        self,
        parent: Any,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """Split into (outer, inner): the inner has `factor` iterations, or the outer `nparts`.

        With `disable_predication` the schedule cannot be made where instances beyond the extent
        have to be left out: as TVM, but it is proved.
        """
        given: dict[str, Any] = {"factor": factor, "nparts": nparts}
        shown = {key: value for key, value in given.items() if value is not None}
        if disable_predication:
            shown["disable_predication"] = True
        call = self._call("split", parent, **shown)
        if (factor is None) == (nparts is None):
            raise call.refused("split needs factor or nparts, and not both")
        at = self.require_leaf(call, parent)
        size = factor_of(call, factor if nparts is None else nparts)
        self._changeable(call, [parent], "split")
        rest = quotient(parent.extent, size)
        mixed = parent.is_reduce and is_data(parent)
        extents = (rest, const(size)) if nparts is None else (const(size), rest)
        outer, inner = (
            IterVar(f"{parent.name}.{part}", extent, parent.is_reduce, mixed)
            for part, extent in zip(("outer", "inner"), extents)
        )
        factors = [None, size] if nparts is None else [size, None]
        leaves = [*self.leaves[:at], outer, inner, *self.leaves[at + 1 :]]
        option = (factors, bool(disable_predication))
        call.change("split", (parent,), (outer, inner), leaves, option)
        return outer, inner

    def tile(
        self, x_parent: Any, y_parent: Any, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops; returns (x_outer, y_outer, x_inner, y_inner), which is their order."""
        before = len(self._owner.requests)
        try:
            xo, xi = self.split(x_parent, x_factor)
            yo, yi = self.split(y_parent, y_factor)
            self.reorder(xo, yo, xi, yi)
        except TensorIRError:
            self._owner.undo(len(self._owner.requests) - before)
            raise
        return xo, yo, xi, yi

    def fuse(self, *args: Any) -> IterVar:
        """Make one loop of several that follow each other; of none, a loop of one iteration
        outside of all, for a stage that has none."""
        axes = axes_of(args)
        call = self._call("fuse", *args)
        places = [self.require_leaf(call, a) for a in axes]
        if not axes:
            single = IterVar("singleton", const(1))
            call.change("unit", (), (single,), [single, *self.leaves])
            return single
        if places != list(range(places[0], places[0] + len(places))):
            raise call.refused(
                f"they are not next to each other, outermost first: loops of {self.shown} are "
                f"{self._names()}",
                "reorder them first",
            )
        self._changeable(call, axes, "fuse")
        extent = axes[0].extent
        for axis in axes[1:]:
            extent = extent * axis.extent
        name = ".".join(a.name for a in axes) + ".fused"
        reduces = any(a.is_reduce for a in axes)
        fused = IterVar(name, extent, reduces, reduces and any(map(is_data, axes)))
        leaves = [*self.leaves[: places[0]], fused, *self.leaves[places[-1] + 1 :]]
        call.change("fuse", axes, (fused,), leaves)
        return fused

    def reorder(self, *args: Any) -> None:
        """Put loops in this order, into the places they occupy."""
        axes = axes_of(args)
        call = self._call("reorder", *args)
        places = sorted(self.require_leaf(call, a) for a in axes)
        if len(set(places)) < len(places):
            raise call.refused(f"it names a loop of {self.shown} twice")
        leaves = self.leaves
        for place, axis in zip(places, axes):
            leaves[place] = axis
        call.change("reorder", axes, (), leaves)

    def decompose_reduction(self, axis: Any) -> CachedTensor:
        """Give the first values of the reduction a stage of their own, directly before the loop
        `axis`: the stage returned, whose axes are the data loops inside of it.

        tensorize needs it where an instruction adds to what is there.
        """
        call = self._call("decompose_reduction", axis)
        at = self.require_leaf(call, axis)
        if not self.op.reduce_axis:
            raise call.refused(f"{self.shown} is no reduction")
        outside = [leaf for leaf in self.leaves[:at] if leaf.is_reduce]
        if outside:
            raise call.refused(
                f"loop {outside[0].name!r}, outside of {axis.name!r}, is of the reduction",
                f"decompose at {outside[0].name!r} or further out",
            )
        inside = [leaf for leaf in self.leaves[at:] if is_data(leaf)]
        axes = tuple(IterVar(f"{a.name}.init", a.extent) for a in inside)
        name = self._owner.fresh_name(f"{self.name}.init")
        op = StageOp(name, axes, (), ())
        tensor = self.op.outputs[0]
        op.outputs = (CachedTensor(name, op, tensor.shape, tensor.dtype),)
        init = Stage(self._owner, name, op, Nest(axes, axes))
        init.stays = f"the first values of {self.shown} stay before loop {axis.name!r} of it"
        request = self._owner.change(call.text, [self], {op: init})
        step = Step("decompose", (axis,), (), request, (init, tuple(inside)))
        self.nest = self.nest.then(step, self.leaves)
        return op.outputs[0]

    def transform_layout(self, mapping_function: Any) -> list[IterVar]:
        """Keep the tensor in another layout, and compute it in that order: the new axes.

        `mapping_function` takes the data axes and returns their new order, as in
        `lambda i, j: (j // 4, i, j % 4)`; every new place has an element. The axes of a reduction
        stay innermost. Comes before requests for the loops, and is not for outputs.
        """
        call = self._call("transform_layout", mapping_function)
        call.require_movable()
        return transform_layout(self._owner, call, self, mapping_function)

    def compute_at(self, parent: Stage, scope: Any) -> None:
        """Compute what is needed of this stage in each iteration of a loop of its consumer.

        If that loop is split or fused later, it is in the innermost loop that comes of it.
        """
        call = self._call("compute_at", parent, scope)
        if not isinstance(parent, Stage) or parent._owner is not self._owner:
            raise call.refused(f"{parent!r} is no stage of this schedule", "give it s[tensor]")
        parent.require_leaf(call, scope)
        call.require_outside(parent)
        call.require_movable()
        call.put((parent, scope))

    def compute_inline(self) -> None:
        """Put the expression of this stage into its consumers."""
        call = self._call("compute_inline")
        if self._owner.is_output(self):
            raise call.refused(f"{self.name!r} is an output")
        call.require_movable()
        call.put("inline")

    def compute_root(self) -> None:
        """Take compute_at and compute_inline back."""
        self._call("compute_root").put(None)

    def _changeable(self, call: Call, axes: Sequence[Any], change: str) -> None:
        reason = in_the_way(self.nest, self.kinds, axes, change)
        if reason is not None:
            raise call.refused(reason)
