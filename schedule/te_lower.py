"""From what was asked of stages to a schedule made with primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedule.schedule import Schedule
from schedule.state import LoopRef
from schedule.te_stage import Stage
from tensorir import PrimFunc, TensorIRError, variables


class StageMaker:
    """Makes one schedule; `loops` tells which loop a handle stands for, if it has one."""

    def __init__(
        self,
        definition: PrimFunc,
        added: Sequence[tuple[Any, ...]],
        stages: Sequence[Stage],
        buffer_of: Callable[[Schedule, Any], str],
    ) -> None:
        self.sch = Schedule(definition)
        self.added = added
        self.stages = stages
        self.buffer_of = buffer_of
        self.loops: dict[int, LoopRef | None] = {}

    def run(self) -> Schedule:
        for kind, *rest in self.added:
            getattr(self, f"_{kind}")(*rest)
        for stage in self.stages:
            if stage.place == "inline":
                self.sch.compute_inline(stage.block)
        order: list[str] = [*self.sch.get_blocks()]
        live = [stage for stage in self.stages if stage.place != "inline"]
        for stage in sorted(live, key=lambda s: order.index(s.block), reverse=True):
            if isinstance(stage.place, tuple):
                self._attach(stage, *stage.place)
            self._find_loops(stage)
            for step in stage.steps:
                self._change(*step)
        for stage in live:
            for name, (axis, *rest) in stage.kinds:
                where = stage.block if axis is None else self.loops[id(axis)]
                if where is not None:
                    getattr(self.sch, name)(where, *rest)
        return self.sch

    def _cache_write(self, inner: Stage, copier: Stage, scope: str) -> None:
        copier.block = self.sch.cache_write(inner.block, 0, scope)

    def _cache_read(self, reader: Stage, copier: Stage, tensor: Any, scope: str) -> None:
        copier.block = self.sch.cache_read(reader.block, self.buffer_of(self.sch, tensor), scope)

    def _rfactor(
        self, stage: Stage, factored: Stage, steps: Sequence[Any], axis: Any, factor_axis: int
    ) -> None:
        self._find_loops(stage)
        for step in steps:
            self._change(*step)
        loop = self.loops[id(axis)]
        if loop is None:
            raise TensorIRError(f"rfactor over {axis.name!r}, which has one iteration only")
        factored.block = self.sch.rfactor(stage.block, loop, factor_axis)

    def _attach(self, stage: Stage, parent: Stage, scope: Any) -> None:
        """Loops of one iteration do not exist after compute_at: the next one outside stands in."""
        place = next((n for n, leaf in enumerate(parent.leaves) if leaf is scope), None)
        if place is None:
            raise TensorIRError(
                f"loop {scope.name!r}, in which {stage.block!r} is computed, is gone: stage "
                f"{parent.block!r} was split or fused since; compute_at one of its new loops"
            )
        if any(id(leaf) not in self.loops for leaf in parent.leaves):
            raise TensorIRError(
                f"{stage.block!r} cannot be computed at stage {parent.block!r}, which runs before "
                "it or is inlined; compute_at needs a consumer"
            )
        for leaf in reversed(parent.leaves[: place + 1]):
            loop = self.loops[id(leaf)]
            if loop is not None:
                if loop not in self.sch.get_loops(stage.block):
                    self.sch.compute_at(stage.block, loop)
                return

    def _find_loops(self, stage: Stage) -> None:
        """The loop of each variable of the block, among those that are its own."""
        state = self.sch.state
        around = state.loops_around(stage.block)
        outside: set[str] = set()
        if isinstance(stage.place, tuple):
            parents = {f.name for f in state.loops_around(stage.place[0].block)}
            outside = {f.name for f in around if f.name in parents}
        own = [f for f in around if f.name not in outside]
        for it, handle in zip(state.block(stage.block).iters, stage.roots, strict=True):
            used = [f.name for f in own if f.var in variables(it.binding)]
            self.loops[id(handle)] = LoopRef(used[-1]) if used else None

    def _change(self, name: str, args: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """split, fuse or reorder; loops of one iteration that do not exist change nothing."""
        if name == "split":
            loop = self.loops[id(args[0])]
            parts = (None, None) if loop is None else self.sch.split(loop, args[1])
            self.loops.update(zip(map(id, made), parts))
            return
        real = [loop for a in args if (loop := self.loops[id(a)]) is not None]
        if name == "reorder":
            self.sch.reorder(*real)
            return
        self.loops[id(made[0])] = real[0] if len(real) == 1 else None
        if len(real) > 1:
            self.loops[id(made[0])] = self.sch.fuse(*real)
