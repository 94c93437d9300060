"""The primitives that requests about loops and memory come to, one for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.state import LoopRef
from schedule.te.kinds import Kind

if TYPE_CHECKING:
    from schedule.te.maker import StageMaker
    from schedule.te.stage import Stage


def mark(maker: StageMaker, stage: Stage, kind: Kind, loop: LoopRef | None) -> None:
    """Meet one request, about `loop` or about the memory of `stage`."""
    sch, block = maker.sch, maker.blocks[stage]
    if loop is not None:
        getattr(sch, kind.name)(loop, *kind.args)
    else:
        getattr(sch, kind.name)(block, 0, *kind.args)
