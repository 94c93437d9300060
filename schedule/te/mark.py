"""The primitives that requests about loops and memory come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.schedule import Schedule
from schedule.state import LoopRef
from schedule.te.kinds import Kind
from schedule.te.ops import key_of
from tensorir import ForKind, TensorIRError

if TYPE_CHECKING:
    from schedule.te.maker import StageMaker
    from schedule.te.stage import Stage


def mark(maker: StageMaker, stage: Stage, kind: Kind, loop: LoopRef | None) -> None:
    """Meet one request, about `loop` or about the memory of `stage`."""
    sch, block = maker.sch, maker.blocks[stage]
    if loop is None:
        getattr(sch, kind.name)(block, 0, *kind.args)
    elif kind.name == "prefetch":
        tensor, offset = kind.args
        sch.prefetch(block, maker.buffers[key_of(tensor)], loop, offset)
    elif kind.name == "pragma":
        _pragma(sch, loop, *kind.args)
    elif kind.name == "bind":
        sch.bind(with_copies(maker, loop), *kind.args)
    else:
        getattr(sch, kind.name)(loop, *kind.args)


def with_copies(maker: StageMaker, loop: LoopRef) -> LoopRef | list[LoopRef]:
    """A loop of threads, and all that it became where other loops came to be outside of it."""
    copies = maker.copies.get(loop, ())
    return [loop, *copies] if copies else loop


def _pragma(sch: Schedule, loop: LoopRef, key: str, value: object) -> None:
    if key == "auto_unroll_max_step":
        _unroll_up_to(sch, loop, value)
    elif key == "unroll_explicit":
        for name in _inside(sch, loop):
            if not value and sch.state.loop(name).kind is ForKind.UNROLLED:
                sch.annotate(name, "unroll_limit", 0)
    else:
        sch.annotate(loop, key, value)


def _inside(sch: Schedule, loop: LoopRef) -> list[LoopRef]:
    """The loop and those inside of it."""
    found: dict[LoopRef, None] = {}
    for block in sch.get_child_blocks(loop):
        around = sch.get_loops(block)
        found.update(dict.fromkeys(around[around.index(loop) :]))
    return list(found)


def _unroll_up_to(sch: Schedule, loop: LoopRef, limit: object) -> None:
    """Unroll around each block, from the innermost loop outwards, what has no more than `limit`
    iterations in all."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise TensorIRError(f"{limit!r} is not a number of steps")
    for block in sch.get_child_blocks(loop):
        around, steps = sch.get_loops(block), 1
        for name in reversed(around[around.index(loop) :]):
            node = sch.state.loop(name)
            steps *= node.const_extent or limit + 1
            if steps > limit or node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                break
            if node.kind is ForKind.SERIAL:
                sch.unroll(name)
