"""Transforming one PrimFunc, legally: Schedule, its primitives and its trace."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from schedule.errors import ScheduleError as ScheduleError
    from schedule.library.tensorized_matmul import TensorizedMatmul as TensorizedMatmul
    from schedule.library.tensorized_matmul import tensorized_matmul as tensorized_matmul
    from schedule.minimize import minimize as minimize
    from schedule.moves import Move as Move
    from schedule.primitive import REGISTRY as REGISTRY
    from schedule.schedule import Schedule as Schedule
    from schedule.state import BlockRef as BlockRef
    from schedule.state import LoopRef as LoopRef
    from schedule.te.create import create_schedule as create_schedule
    from schedule.te.schedule import TESchedule as TESchedule
    from schedule.trace import Instruction as Instruction
    from schedule.trace import Trace as Trace
    from schedule.validate import MiscompiledError as MiscompiledError

__all__ = lazy_names(
    __name__,
    {
        "schedule.errors": "ScheduleError",
        "schedule.library.tensorized_matmul": "TensorizedMatmul tensorized_matmul",
        "schedule.minimize": "minimize",
        "schedule.moves": "Move",
        "schedule.schedule": "REGISTRY Schedule",
        "schedule.state": "BlockRef LoopRef",
        "schedule.te.create": "create_schedule",
        "schedule.te.schedule": "TESchedule",
        "schedule.trace": "Instruction Trace",
        "schedule.validate": "MiscompiledError",
    },
)
