"""One stage of a schedule in TVM's tensor-expression style, and what can be asked of its loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from schedule.te.errors import RequestError
from schedule.te.kinds import Kind, Slot, in_the_way
from schedule.te.nest import IterVar, Nest, Step
from schedule.te.request import Request, call_text, caller
from schedule.te.values import axes_of, factor_of, quotient
from tensorir import TensorIRError, const

if TYPE_CHECKING:
    from schedule.te.schedule import TESchedule

Place = tuple["Stage", Any]


class Stage:
    """Requests to one stage: recorded at the call, met when the program is asked for.

    A call is refused at once, with ScheduleError, where it can never be met: an axis that is no
    loop of the stage, a factor of 0. All else is found when the schedule is made, since later
    requests may make it legal; the error then names the request, and `withdraw` takes it back.
    """

    def __init__(self, owner: TESchedule, name: str, op: Any, nest: Nest) -> None:
        self._owner = owner
        self.name = name
        """What the stage is called in messages: the name of its block, or of the cached tensor."""
        self.op = op
        self.nest = nest
        self.kinds: dict[Slot, Kind] = {}
        self.place: Place | str | None = None
        """(stage, loop) of compute_at, "inline", or None."""
        self.placed_by: Request | None = None
        self.fixed = ""
        """Why nothing can be asked of the stage, if so."""

    def __repr__(self) -> str:
        return f"Stage({self.name}: {', '.join(a.name for a in self.leaves)})"

    @property
    def shown(self) -> str:
        """The stage as it is typed."""
        return f"s[{self.name}]"

    @property
    def leaves(self) -> list[Any]:
        """The loops as they stand, outermost first."""
        return list(self.nest.leaves)

    leaf_iter_vars = leaves

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
        extents = (rest, const(size)) if nparts is None else (const(size), rest)
        outer, inner = (
            IterVar(f"{parent.name}.{part}", extent, parent.is_reduce)
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
        data = [a.name for a in axes if not a.is_reduce]
        reduced = [a.name for a in axes if a.is_reduce]
        if data and reduced:
            raise call.refused(
                f"{data[0]!r} is a data axis and {reduced[0]!r} a reduce axis: a loop over both "
                "would have no place for the first values of the sums",
                "fuse the data axes, and the reduce axes, among themselves",
            )
        self._changeable(call, axes, "fuse")
        extent = axes[0].extent
        for axis in axes[1:]:
            extent = extent * axis.extent
        fused = IterVar(".".join(a.name for a in axes) + ".fused", extent, bool(reduced))
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

    def vectorize(self, var: Any) -> None:
        """Run the loop as vector lanes."""
        self._mark("vectorize", var)

    def parallel(self, var: Any) -> None:
        """Run the loop on several threads."""
        call = self._call("parallel", var)
        self.require_leaf(call, var)
        if var.is_reduce:
            raise call.refused(
                f"{var.name!r} is a reduction of {self.shown}: its iterations add to one element",
                "s.rfactor makes them independent",
            )
        call.mark("parallel", var)

    def unroll(self, var: Any) -> None:
        """Write out the iterations of the loop."""
        self._mark("unroll", var)

    def bind(self, ivar: Any, thread_ivar: Any) -> None:
        """Give the iterations to the threads of a GPU: te.thread_axis(...) or its name."""
        self._mark("bind", ivar, getattr(thread_ivar, "name", thread_ivar))

    def tensorize(self, var: Any, tensor_intrin: str) -> None:
        """Let a tensor intrinsic, given by its name, do what the loop and those inside it do."""
        self._mark("tensorize", var, tensor_intrin)

    def set_scope(self, scope: str) -> None:
        """Put the tensor into this memory."""
        self._call("set_scope", scope).mark("set_scope", None, scope)

    def storage_align(self, axis: Any, factor: int, offset: int) -> None:
        """Make the stride of `axis`, one of `op.axis`, a multiple of `factor`, plus `offset`."""
        call = self._call("storage_align", axis, factor, offset)
        place = next((n for n, a in enumerate(self.op.axis) if a is axis), None)
        if place is None:
            raise call.refused(f"storage_align of {self.shown} needs one of its op.axis")
        call.mark("storage_align", axis, place, factor, offset)

    def compute_at(self, parent: Stage, scope: Any) -> None:
        """Compute what is needed of this stage in each iteration of a loop of its consumer.

        If that loop is split or fused later, it is in the innermost loop that comes of it.
        """
        call = self._call("compute_at", parent, scope)
        if not isinstance(parent, Stage) or parent._owner is not self._owner:
            raise call.refused(f"{parent!r} is no stage of this schedule", "give it s[tensor]")
        parent.require_leaf(call, scope)
        outer: Any = parent
        while isinstance(outer, Stage):
            if outer is self:
                raise call.refused(
                    f"{parent.shown} is computed in {self.shown} itself; compute_at needs a "
                    "consumer"
                )
            outer = outer.place[0] if isinstance(outer.place, tuple) else None
        call.put((parent, scope))

    def compute_inline(self) -> None:
        """Put the expression of this stage into its consumers."""
        call = self._call("compute_inline")
        if self._owner.is_output(self):
            raise call.refused(f"{self.name!r} is an output")
        call.put("inline")

    def compute_root(self) -> None:
        """Take compute_at and compute_inline back."""
        self._call("compute_root").put(None)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Call:
        call = Call(self, call_text(self.shown, name, args, kwargs))
        call.require_computed()
        return call

    def _mark(self, name: str, axis: Any, *rest: Any) -> None:
        call = self._call(name, axis, *rest)
        self.require_leaf(call, axis)
        call.mark(name, axis, *rest)

    def require_leaf(self, call: Call, axis: Any) -> int:
        """The place of a loop among the leaves; refuses the call if it is none."""
        for place, leaf in enumerate(self.nest.leaves):
            if leaf is axis:
                return place
        raise call.refused(
            f"{getattr(axis, 'name', axis)!r} is no loop of stage {self.name!r} now; its loops are "
            f"{self._names()}"
        )

    def _changeable(self, call: Call, axes: Sequence[Any], change: str) -> None:
        reason = in_the_way(self.nest, self.kinds, axes, change)
        if reason is not None:
            raise call.refused(reason)

    def _names(self) -> str:
        return ", ".join(leaf.name for leaf in self.leaves) or "none"


class Call:
    """One call of a method of a stage: refused, or recorded in one of three ways."""

    def __init__(self, stage: Stage, text: str) -> None:
        self.stage, self.text = stage, text

    def refused(self, reason: str, hint: str | None = None) -> RequestError:
        return RequestError(self.text, self.stage.name, reason, hint)

    def require_computed(self) -> None:
        """Refuse to ask anything of an input or a te.scan."""
        if self.stage.fixed:
            reason, _, hint = self.stage.fixed.partition("; ")
            raise self.refused(reason, hint)

    def change(
        self,
        name: str,
        args: Sequence[Any],
        made: tuple[IterVar, ...],
        leaves: Sequence[Any],
        option: Any = None,
    ) -> None:
        """Loops become others."""
        stage, before = self.stage, self.stage.nest

        def revert() -> None:
            stage.nest = before

        request = self._record(revert)
        stage.nest = before.then(Step(name, tuple(args), made, request, option), leaves)

    def mark(self, name: str, axis: Any, *args: Any) -> None:
        """A loop is to be run in some way, or the stage's memory to be used so."""
        stage = self.stage

        def revert() -> None:
            if stage.kinds.get(kind.slot) is kind:
                del stage.kinds[kind.slot]
                if before is not None:
                    stage.kinds[kind.slot] = before

        kind = Kind(name, axis, args, self._record(revert, stands_alone=True))
        before = stage.kinds.get(kind.slot)
        stage.kinds[kind.slot] = kind

    def put(self, place: Place | str | None) -> None:
        """The stage is computed elsewhere."""
        stage, before = self.stage, (self.stage.place, self.stage.placed_by)

        def revert() -> None:
            if stage.placed_by is request:
                stage.place, stage.placed_by = before

        request = self._record(revert, stands_alone=True)
        stage.place, stage.placed_by = place, request

    def _record(self, revert: Callable[[], None], stands_alone: bool = False) -> Request:
        request = Request(self.text, caller(), revert, stands_alone)
        self.stage._owner.record(request)
        return request
