"""One stage of a schedule in TVM's tensor-expression style: what was asked of it, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorir import TensorIRError

if TYPE_CHECKING:
    from schedule.te_schedule import TESchedule


class IterVar:
    """A loop of a stage, as split, fuse and the like return it; compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class StageOp:
    """The axes of a stage, as `s[C].op` and, for cached tensors, `CC.op`."""

    __slots__ = ("axis", "name", "reduce_axis")

    def __init__(self, name: str, axis: Sequence[Any], reduce_axis: Sequence[Any]) -> None:
        self.name = name
        self.axis, self.reduce_axis = tuple(axis), tuple(reduce_axis)


class CachedTensor:
    """What cache_read, cache_write and rfactor return: a stage that has no tensor of its own."""

    __slots__ = ("index", "name", "op")

    def __init__(self, name: str, op: StageOp) -> None:
        self.name, self.op, self.index = name, op, 0


class Stage:
    """Requests to one block. Each is tried out at once with all that were made before, and
    refused with ScheduleError where it is not legal."""

    def __init__(self, owner: TESchedule, block: str, op: StageOp, roots: Sequence[Any]) -> None:
        self._owner = owner
        self.block = block
        self.op = op
        self.roots = tuple(roots)
        """For each variable of the block the handle of its loop, None where it has none."""
        self.leaves: list[Any] = [r for r in roots if r is not None]
        """The loops as they stand, outermost first."""
        self.steps: list[tuple[str, tuple[Any, ...], tuple[IterVar, ...]]] = []
        """Requests that change loops: their name, arguments and results."""
        self.kinds: list[tuple[str, tuple[Any, ...]]] = []
        """Requests that say how a loop is run."""
        self.place: tuple[Stage, Any] | str | None = None
        """(stage, loop) of compute_at, "inline", or None."""

    def split(
        self, parent: Any, factor: int | None = None, nparts: int | None = None
    ) -> tuple[IterVar, IterVar]:
        """Split into (outer, inner): the inner has `factor` iterations, or the outer `nparts`."""
        if (factor is None) == (nparts is None):
            raise TensorIRError("split needs factor or nparts, and not both")
        at = self._leaf(parent)
        outer, inner = IterVar(f"{parent.name}.outer"), IterVar(f"{parent.name}.inner")
        factors = [None, factor] if nparts is None else [nparts, None]
        leaves = [*self.leaves[:at], outer, inner, *self.leaves[at + 1 :]]
        self._ask("split", (parent, factors), (outer, inner), leaves)
        return outer, inner

    def tile(
        self, x_parent: Any, y_parent: Any, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops; returns (x_outer, y_outer, x_inner, y_inner), which is their order."""
        steps, leaves = list(self.steps), list(self.leaves)
        try:
            xo, xi = self.split(x_parent, x_factor)
            yo, yi = self.split(y_parent, y_factor)
            self.reorder(xo, yo, xi, yi)
        except TensorIRError:
            self.steps, self.leaves = steps, leaves
            self._owner.update()
            raise
        return xo, yo, xi, yi

    def fuse(self, *args: Any) -> IterVar:
        """Make one loop of several that follow each other."""
        places = [self._leaf(a) for a in args]
        if not places or places != list(range(places[0], places[0] + len(places))):
            raise TensorIRError(
                f"fuse of {', '.join(a.name for a in args)}, which are not next to each other in "
                f"stage {self.block!r}: its loops are {self._names()}"
            )
        fused = IterVar(".".join(a.name for a in args) + ".fused")
        leaves = [*self.leaves[: places[0]], fused, *self.leaves[places[-1] + 1 :]]
        self._ask("fuse", args, (fused,), leaves)
        return fused

    def reorder(self, *args: Any) -> None:
        """Put loops in this order, into the places they occupy."""
        places = sorted(self._leaf(a) for a in args)
        if len(set(places)) < len(places):
            raise TensorIRError(f"reorder names a loop of stage {self.block!r} twice")
        leaves = list(self.leaves)
        for place, axis in zip(places, args):
            leaves[place] = axis
        self._ask("reorder", args, (), leaves)

    def vectorize(self, var: Any) -> None:
        """Run the loop as vector lanes."""
        self._kind("vectorize", var)

    def parallel(self, var: Any) -> None:
        """Run the loop on several threads."""
        self._kind("parallel", var)

    def unroll(self, var: Any) -> None:
        """Write out the iterations of the loop."""
        self._kind("unroll", var)

    def bind(self, ivar: Any, thread_ivar: Any) -> None:
        """Give the iterations to the threads of a GPU: te.thread_axis(...) or its name."""
        self._kind("bind", ivar, getattr(thread_ivar, "name", thread_ivar))

    def tensorize(self, var: Any, tensor_intrin: str) -> None:
        """Let a tensor intrinsic, given by its name, do what the loop and those inside it do."""
        self._kind("tensorize", var, tensor_intrin)

    def set_scope(self, scope: str) -> None:
        """Put the tensor into this memory."""
        self._kind("set_scope", None, 0, scope)

    def storage_align(self, axis: Any, factor: int, offset: int) -> None:
        """Make the stride of `axis`, one of `op.axis`, a multiple of `factor`, plus `offset`."""
        place = next((n for n, a in enumerate(self.op.axis) if a is axis), None)
        if place is None:
            raise TensorIRError(f"storage_align of stage {self.block!r} needs one of its op.axis")
        self._kind("storage_align", None, 0, place, factor, offset)

    def compute_at(self, parent: Stage, scope: Any) -> None:
        """Compute what is needed of this stage in each iteration of a loop of its consumer."""
        parent._leaf(scope)
        self._put((parent, scope))

    def compute_inline(self) -> None:
        """Put the expression of this stage into its consumers."""
        self._put("inline")

    def compute_root(self) -> None:
        """Take compute_at and compute_inline back."""
        self._put(None)

    def _leaf(self, axis: Any) -> int:
        for place, leaf in enumerate(self.leaves):
            if leaf is axis:
                return place
        raise TensorIRError(
            f"{getattr(axis, 'name', axis)!r} is no loop of stage {self.block!r} now; "
            f"its loops are {self._names()}"
        )

    def _names(self) -> str:
        return ", ".join(leaf.name for leaf in self.leaves) or "none"

    def _ask(
        self, name: str, args: tuple[Any, ...], made: tuple[IterVar, ...], leaves: list[Any]
    ) -> None:
        before = self.leaves
        self.leaves = leaves
        self.steps.append((name, args, made))
        try:
            self._owner.update()
        except TensorIRError:
            self.steps.pop()
            self.leaves = before
            raise

    def _kind(self, name: str, axis: Any, *rest: Any) -> None:
        if axis is not None:
            self._leaf(axis)
        self.kinds.append((name, (axis, *rest)))
        try:
            self._owner.update()
        except TensorIRError:
            self.kinds.pop()
            raise

    def _put(self, place: tuple[Stage, Any] | str | None) -> None:
        before, self.place = self.place, place
        try:
            self._owner.update()
        except TensorIRError:
            self.place = before
            raise
