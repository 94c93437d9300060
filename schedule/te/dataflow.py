"""Requests that change the graph: cache_read, cache_write and rfactor make new stages.

They are met first, on the definition as it is, in the order in which they were made; what was asked
of the loops of a stage before goes to the stage that has these loops after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from schedule.analysis.uses import read_by_others, reduction_loops, written
from schedule.te.nest import Nest
from schedule.te.request import Request
from schedule.te.stage import Stage
from tensorir import TensorIRError

if TYPE_CHECKING:
    from schedule.te.maker import StageMaker

Key = tuple[Any, int]


class Change(Protocol):
    """A request that changes the graph."""

    @property
    def request(self) -> Request: ...

    def apply(self, maker: StageMaker) -> None: ...


@dataclass(frozen=True)
class CacheRead:
    """`readers` read `source` through the copy that `copier` makes."""

    source: Key
    cached: Key
    readers: tuple[Stage, ...]
    copier: Stage
    scope: str
    request: Request

    def apply(self, maker: StageMaker) -> None:
        sch, buffer = maker.sch, maker.buffers[self.source]
        (reader, *others) = (maker.blocks[r] for r in self.readers)
        several = {"consumer_blocks": [reader, *others]} if others else {}
        block = sch.cache_read(reader, buffer, self.scope, **several)
        maker.blocks[self.copier] = block
        maker.buffers[self.cached] = written(sch.state.block(block))[0].name


@dataclass(frozen=True)
class CacheWrite:
    """`inner` computes all outputs into copies, from which `copier` takes them."""

    outputs: tuple[Key, ...]
    cached: tuple[Key, ...]
    inner: Stage
    copier: Stage
    scope: str
    request: Request

    def apply(self, maker: StageMaker) -> None:
        block = maker.blocks[self.copier]
        made = [
            _cache(maker, block, key, cached, self.scope)
            for key, cached in zip(self.outputs, self.cached)
        ]
        maker.blocks[self.inner], maker.blocks[self.copier] = block, made[0]
        if len(made) > 1:
            order = [name for name in maker.sch.get_blocks() if name in made]
            for depth in range(len(self.copier.op.axis)):
                maker.sch.merge(*(maker.sch.get_loops(name)[depth] for name in order))


@dataclass(frozen=True)
class CacheOutput:
    """`copier` takes one of several outputs from a copy; `stage` goes on computing all."""

    output: Key
    cached: Key
    stage: Stage
    copier: Stage
    scope: str
    request: Request

    def apply(self, maker: StageMaker) -> None:
        block = maker.blocks[self.stage]
        maker.blocks[self.copier] = _cache(maker, block, self.output, self.cached, self.scope)


def _cache(maker: StageMaker, block: str, output: Key, cached: Key, scope: str) -> str:
    copier = maker.sch.cache_write(block, maker.buffers[output], scope)
    maker.buffers[cached] = read_by_others(maker.sch.state.block(copier))[0].name
    return copier


@dataclass(frozen=True)
class RFactor:
    """`factored` reduces for each iteration of `axis` by itself, then `stage` over these.

    `before` is what was asked of the reduction until then, `after` has the first loops of
    `factored`, `left` pairs of its other reduce axes with what they were; `parts` are what it
    computes of `outputs`.
    """

    stage: Stage
    factored: Stage
    before: Nest
    after: Nest
    axis: Any
    left: tuple[tuple[Any, Any], ...]
    factor_axis: int
    outputs: tuple[Key, ...]
    parts: tuple[Key, ...]
    request: Request

    def apply(self, maker: StageMaker) -> None:
        maker.find_loops(self.stage, self.before)
        for step in self.before.steps:
            maker.change(self.stage, step)
        state, loops = maker.sch.state, maker.loops.pop(self.stage)
        node = state.block(maker.blocks[self.stage])
        around = state.loops_around(node.name)
        reducing = {f.name for f in reduction_loops(node, around)}
        loop = loops[id(self.axis)]
        if loop is None or (around and node.is_reduction and loop not in reducing):
            raise TensorIRError(
                f"{self.axis.name!r} has one iteration only, so there are no parts to reduce"
            )
        once = [new for old, new in self.left if loops[id(old)] not in reducing]
        maker.without_variable[self.factored] = once
        whole = written(node)
        block = maker.sch.rfactor(maker.blocks[self.stage], loop, self.factor_axis)
        maker.blocks[self.factored] = block
        parts = {b.name: part.name for b, part in zip(whole, written(maker.sch.state.block(block)))}
        for output, part in zip(self.outputs, self.parts):
            maker.buffers[part] = parts[maker.buffers[output]]
        maker.find_loops(self.factored, self.after)
        loops = maker.loops.pop(self.factored)
        maker.sch.reorder(
            *(loop for axis in self.after.leaves if (loop := loops[id(axis)]) is not None)
        )
